"""The one walk over the batches of a log: what should come next, what is done with what does, where it goes on."""
