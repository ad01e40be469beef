"""`kafkalog build`: partition directories from Parquet, Arrow or JSON lines."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

import click

from kafkalog.cli.lines import print_lines
from kafkalog.cli.options.common import JSON
from kafkalog.cli.options.numbers import PARTITION, PARTITION_COUNT
from kafkalog.cli.options.paths import partition_directories, settings_in
from kafkalog.cli.output import remark
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.extras import needed
from kafkalog.codec.common.wording import counted
from kafkalog.codec.model import Codec
from kafkalog.log.writing.config import LogConfig
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import exit_code_of_change

__all__ = ["command"]


@click.command(name="build")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=str, readable=False))
@click.option("--into", "targets", metavar="DIR", multiple=True, type=click.Path(path_type=str),
              help="Log directory to write the partitions into; with several, all log directories of the broker, or "
              "their parent.",
              )  # fmt: skip
@click.option("--server-properties", metavar="FILE", type=click.Path(exists=True, dir_okay=False, readable=False),
              help="The broker's server.properties; its log.dirs are used instead of --into.")  # fmt: skip
@click.option("-t", "--topic", metavar="TOPIC", help="Topic of all records; overrides the topic column.")
@click.option("-p", "--partition", type=PARTITION, help="Partition of all records [the partition column, else 0].")
@click.option("--partitions", type=PARTITION_COUNT, metavar="N",
              help="Number of partitions of each topic; records are assigned to them by key.")  # fmt: skip
@click.option("--partitioner", type=click.Choice(["murmur2", "hash"]),
              help="Hash for --partitions: murmur2 as in the Java client, or hash as in "
                   "Scala clients up to 1.1 [murmur2].")  # fmt: skip
@click.option("--compression", type=click.Choice([codec.label for codec in Codec]), default=Codec.NONE.label,
              show_default=True, help="Compression of the batches.")  # fmt: skip
@click.option("--batch-bytes", type=click.IntRange(min=1), default=16384, show_default=True,
              help="Largest batch before compression in bytes, like a producer's batch.size.")  # fmt: skip
@click.option("--segment-bytes", type=int, default=LogConfig().segment_bytes, show_default=True,
              help="Largest size of a segment in bytes.")  # fmt: skip
@click.option(
    "--keep-offsets", is_flag=True, help="Keep the records' own offsets instead of numbering them from the log end."
)
@click.option("--append", is_flag=True, help="Append to partitions that already exist.")
@click.option("--encoding", type=click.Choice(["text", "base64"]), default="text", show_default=True,
              help="Encoding of keys and values in JSON lines, as given to dump --encoding.")  # fmt: skip
@JSON
def command(
    files: tuple[str, ...],
    targets: tuple[str, ...],
    server_properties: str | None,
    partitions: int | None,
    partitioner: str | None,
    append: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Write partition directories from records: segments, indexes and checkpoints, as a broker reads them.

    FILE is a Parquet file, an Arrow file (.arrow, .feather) or stream (.arrows), or JSON lines (.jsonl) as dump
    --json prints them.  The column value is required; key, timestamp, headers, topic, partition and offset are
    optional. A record without a partition goes to partition 0.  With --partitions its key decides; records without a
    key are spread round-robin.  For a broker with several directories, name all: a new partition is created in the
    directory with the fewest, as a broker does. With --append, records are added to an existing partition where it is;
    without it, an existing partition is refused.

    Exit code 0 when all is well, 1 if a FILE or an existing log is damaged, 2 if --append was given and records were
    written, 3 if a recovery of a directory has not ended, 4 if something could not be read or written.
    """
    if bool(targets) == (server_properties is not None):
        raise UsageError("give either --into or --server-properties")
    if partitions is None and partitioner is not None:
        raise UsageError("--partitioner is the hash for --partitions, and needs it")
    with needed("build", "fast"):
        from kafkalog.log.writing.building import build_partitions
        from kafkalog.log.writing.record_files import read_record_file

    building = partial(
        build_partitions,
        chain.from_iterable(read_record_file(path, encoding=given["encoding"]) for path in files),
        targets or partition_directories(server_properties or "", settings_in(server_properties)),
        topic=given["topic"],
        partition=given["partition"],
        num_partitions=partitions,
        partitioner=partitioner or "murmur2",
        config=LogConfig(segment_bytes=given["segment_bytes"], max_message_bytes=2**31 - 1),
        codec=next(codec for codec in Codec if codec.label == given["compression"]),
        batch_bytes=given["batch_bytes"],
        keep_offsets=given["keep_offsets"],
        append=append,
        option="--partitions",
    )
    try:
        built = building()
    except BaseException as error:
        for note in getattr(error, "__notes__", ()):
            remark(note)
        raise
    if as_json:
        print_lines(built)
    else:
        with SentenceWriter() as writer:
            for each in built:
                held = f"{counted(each.records, 'record')} in {counted(each.batches, 'batch')}"
                writer.write(f"{escape_controls(each.path)}: {held} from offset {each.first_offset}")
    return exit_code_of_change(bool(built), is_new=not append)
