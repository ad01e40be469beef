"""Read a partition as a consumer does: records, columns or chunks of bytes. Search it by offset and time."""
