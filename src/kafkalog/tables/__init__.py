"""Export records to Parquet, Iceberg and Delta tables incrementally, each record exactly once.

`exporting` has the public call.  `positions` computes which offsets of a partition are not in the table yet, `rows` and
`table_types` convert records to rows, `data_files` writes files; `parquet`, `iceberg` and `delta` store the offsets in
the table itself.
"""
