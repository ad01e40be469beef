"""Log directories, partitions and segments as they lie on a disk, and the small files that speak about them."""
