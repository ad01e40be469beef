"""Keys and values with their schemas: the schema registry as its log on the disk has it, and what values say by it.

`registry` is what a registry holds, `schema_log` reads it from the records of `_schemas`, `sources` finds those or what
was exported; `export` gives a registry back; `used_ids` compares it with the ids that values use.
"""
