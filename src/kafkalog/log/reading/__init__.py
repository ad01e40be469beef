"""Read a partition as a consumer does, in every form, and search it by offset and time."""
