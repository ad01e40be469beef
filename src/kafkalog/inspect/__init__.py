"""Questions about log directories that no repair depends on: who fills a disk, what retention will delete."""
