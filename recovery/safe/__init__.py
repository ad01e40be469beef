"""Mode safe: leave a log that a broker opens without changing a byte."""
