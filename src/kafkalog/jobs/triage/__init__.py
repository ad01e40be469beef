"""After a power cut, before the first start: who will lead each partition, and what the others lose by following."""
