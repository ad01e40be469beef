"""Records as tables of analysts: Parquet, Iceberg and Delta, added to again and again, each record once.

`exporting` is the public call.  `positions` decides what of a partition is still to be added, `rows` and `table_types`
what a row is, `data_files` writes files; `parquet`, `iceberg` and `delta` keep the offsets in the table itself.
"""
