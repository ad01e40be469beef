"""Mode safe: what a broker opens without changing a byte, with every sound batch that is there."""
