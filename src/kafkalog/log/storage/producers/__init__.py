"""Keep the producer state of a log (`ProducerStateManager`): appends, snapshots and open transactions."""
