"""`kafkalog export`: write records into tables of Parquet, Iceberg or Delta; each record once, even if the command is
repeated.
"""

from __future__ import annotations

from typing import Any

import click

from kafkalog.cli.options.common import JOBS, JSON, REPLICA
from kafkalog.cli.options.numbers import Whole
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.requests import request_fields, request_option
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.options.times import AT, time_bound_options
from kafkalog.cli.output import print_json, remark, report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.settings import record_filter
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.codec.common.extras import needed
from kafkalog.log import ISOLATION_LEVELS, open_all
from kafkalog.log.reading.consumer_view import READ_COMMITTED
from kafkalog.tables.request import Export
from kafkalog.values.sources import read_schemas
from kafkalog.words.exit_codes import exit_code_of_findings

__all__ = ["command"]

_OFFSET = Whole(0, (1 << 63) - 1)


@click.command(name="export")
@PATHS
@request_option(Export, "format", required=True)
@click.option("--to", "target", required=True, metavar="DIR", help="Directory for the tables, one table per topic.")
@selection_options
@click.option("--start-offset", metavar="N", type=_OFFSET,
              help="First offset (inclusive) in partitions that are not in the table yet.")  # fmt: skip
@click.option("--end-offset", metavar="N", type=_OFFSET, help="Offset after the last one (exclusive).")
@time_bound_options
@click.option("--isolation-level", type=click.Choice(ISOLATION_LEVELS), default=READ_COMMITTED, show_default=True,
              help="read_committed leaves out aborted transactions, and ends at an open one.")  # fmt: skip
@request_option(Export, "values")
@click.option("--schemas", metavar="PATH", multiple=True,
              help="Source of the schemas, as for `kafkalog schemas` [_schemas in PATH or beside it].")  # fmt: skip
@request_option(Export, "key_schema")
@request_option(Export, "values_schema")
@request_option(Export, "masks")
@click.option("--no-dates", is_flag=True, help="Do not partition tables by day.")
@request_option(Export, "accept_loss")
@JOBS
@AT
@JSON
@REPLICA
@paths_in_properties
def command(
    paths: tuple[str, ...],
    target: str,
    schemas: tuple[str, ...],
    no_dates: bool,
    jobs: int,
    as_json: bool,
    **given: Any,
) -> int:
    """Add records to tables below DIR, one for each topic, divided by partition and day.

    Each table stores the offsets that it has reached.  The same command again, even after it was killed, adds only
    later records, each exactly once.  Start bounds apply only to partitions that a table has no records of;
    otherwise the export continues where the table ends.  Kafka's own topics are left out unless they are named.

    Exit code 0 when all is well, 1 if something was found, 3 if it refused, such as for a table that does not belong to
    a log, 4 if something could not be read.
    """
    with needed("export", "fast"):
        from kafkalog.tables.exporting import export

    request = Export(
        select=given["chosen"], filter=record_filter(given), by_day=not no_dates, replica=given["replica"],
        schemas=read_schemas(*schemas) if schemas else None, **request_fields(Export, given),
    )  # fmt: skip
    takes = request.select.takes
    size = sum(each.size for each in open_all(*paths).partitions if takes(each.topic, each.partition))
    with ByteProgress("exporting", size) as progress:
        result = export(request, *paths, target=target, jobs=jobs, on_bytes=progress.advance)
    if as_json:
        for partition in result.partitions:
            print_json(partition)
    else:
        columns: list[str | Column] = [
            "topic", "partition", "records", Column("from offset", if_any=True), "next offset", Column("files", drop=2),
            Column("bytes", Kind.BYTES, drop=1),
        ]  # fmt: skip
        rows = [
            [each.topic, each.partition, each.records, each.first_offset, each.next_offset, each.files, each.bytes]
            for each in result.partitions
        ]
        sums = [sum(row[place] or 0 for row in rows) for place in (2, 5, 6)]  # type: ignore[misc]
        totals = ["total", "", sums[0], "", "", *sums[1:]]
        print_table(f"added to {target}", columns, rows, totals)
    for partition in result.partitions:
        if partition.open_transaction is not None:
            remark(f"{partition.topic}-{partition.partition}: {partition.open_transaction}")
    report_findings(result.findings)
    return exit_code_of_findings(result.findings)
