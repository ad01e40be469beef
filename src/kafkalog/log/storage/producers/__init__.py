"""Producer state of a log (`ProducerStateManager`): appends, snapshots, open transactions."""
