"""Define the data source `kafkalog`. Options and schema are checked here, on the driver, before anything is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkalog.spark.stream import LogStreamReader

__all__ = ["KafkaLogSource"]


class KafkaLogSource(DataSource):
    """The format `kafkalog` for `read`, `readStream`, `write` and `writeStream`: columns and options of Spark's Kafka
    source and sink, over files.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafkalog"

    def schema(self) -> StructType:
        """Return the schema that the options ask for. If the option `contents` is not `records`, its columns are fixed.
        If keys or values are to be decoded, the first records are read to find their types. Raises `UsageError` for
        wrong options, missing paths, and data that no single type fits. Raises `StorageError` if a file cannot be read.
        Raises `FormatError` for an invalid file of schemas.
        """
        from kafkalog.spark.discovery import expand_paths
        from kafkalog.spark.options import RECORDS, parse_options

        # Spark does not say yet whether this is for a batch query or for a stream
        options = parse_options(self.options, streaming=True)
        expand_paths(options.paths)
        if options.contents != RECORDS:
            from kafkalog.spark.contents_schema import SCHEMAS

            return SCHEMAS[options.contents]
        from kafkalog.spark.deciding import decided
        from kafkalog.spark.schema import full_schema

        return full_schema(options, decided(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader for the columns of `schema`, which are the default ones or those of the user. If keys
        or values are to be decoded, the first records are read. Warns about options without an effect. Raises
        `UsageError` for wrong options or columns, `StorageError` if a file cannot be read, `FormatError` for an invalid
        file of schemas. Paths are checked here only for decoding and for a remote tier.
        """
        from kafkalog.spark.deciding import decided
        from kafkalog.spark.discovery import expand_paths
        from kafkalog.spark.options import RECORDS, parse_options
        from kafkalog.spark.query_warnings import tell
        from kafkalog.spark.reader import LogReader
        from kafkalog.spark.schema import layout_of

        options = parse_options(self.options)
        if options.remote is not None:  # Spark pickles the reader before it asks for partitions
            options.in_both_tiers(expand_paths(options.paths))
        if options.ignored:
            tell(f"options without an effect here are ignored: {', '.join(options.ignored)}", UserWarning)
        if options.contents != RECORDS:
            from kafkalog.spark.contents_reader import ContentsReader
            from kafkalog.spark.contents_schema import chosen

            return ContentsReader(options, chosen(schema, options.contents))
        return LogReader(options, layout_of(schema, options, decided(options)))

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802 - Spark's name
        """Return the streaming reader for the columns of `schema`, which are the default ones or those of the user. If
        keys or values are to be decoded, the first records are read. Warns about options without an effect. Raises
        `UsageError` for wrong options or columns, `StorageError` if a file cannot be read, `FormatError` for an invalid
        file of schemas.
        """
        from kafkalog.spark.deciding import decided
        from kafkalog.spark.query_warnings import tell
        from kafkalog.spark.schema import layout_of
        from kafkalog.spark.stream import LogStreamReader
        from kafkalog.spark.stream_options import parse_stream_options

        options = parse_stream_options(self.options)
        if options.read.ignored:
            ignored = ", ".join(options.read.ignored)
            tell(f"options without an effect here are ignored: {ignored}", UserWarning)
        return LogStreamReader(options, layout_of(schema, options.read, decided(options.read)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the batch writer for rows of `schema`; with `overwrite` the topics that have rows are replaced.
        Creates the directory for staged files beside the log directory, and warns about options without an effect.
        Raises `UsageError` for wrong options or columns, `StorageError` if that directory cannot be created or the log
        directory not be read.
        """
        from kafkalog.spark.writer import LogArrowWriter

        return LogArrowWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of a stream's batches, for rows of `schema`. Warns about options without an effect. Raises
        `UsageError` for wrong options or columns, with `overwrite`, and before PySpark 4.1, `StorageError` if the log
        directory cannot be read.
        """
        from kafkalog.spark.writer import LogStreamArrowWriter

        return LogStreamArrowWriter(self.options, schema, overwrite=overwrite)
