"""Headers of many batches as columns: runs of consecutive batches, the scan that yields them, and rules about them."""
