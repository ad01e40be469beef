"""What a consumer is given of a partition, in every form; look-ups by offset and time."""
