"""Find and read log directories, partitions and segments on a disk, and the small files about them."""
