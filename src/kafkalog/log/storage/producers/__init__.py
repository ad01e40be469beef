"""What a log knows of its producers (`ProducerStateManager`): appends, snapshots, open transactions."""
