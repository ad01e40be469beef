"""Headers of many batches as columns: runs of batches, the scan that finds them, and rules about them."""
