"""Tell after a power cut, before the first start, who will lead each partition and what followers lose."""
