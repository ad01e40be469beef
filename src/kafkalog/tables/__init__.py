"""Incremental export of records to Parquet, Iceberg and Delta tables, each record exactly once.

`exporting` has the public function. `positions` computes which offsets of a partition are not in the table yet, `rows`
and `table_types` convert records to rows, and `data_files` writes files; `parquet`, `iceberg` and `delta` store the
offsets in the table itself.
"""
