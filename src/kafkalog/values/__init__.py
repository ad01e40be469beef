"""Keys and values with their schemas: the contents of a schema registry, read from its log on disk, and the decoding of
keys and values by these schemas.

`registry` defines the contents of a registry, `schema_log` applies the records of `_schemas` to it, `sources` reads
these records or an export; `export` writes a registry; `used_ids` compares it with the ids that values use.
"""
