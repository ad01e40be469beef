"""Headers of many batches as columns: runs of batches, the walk that finds them, and the rules over them."""
