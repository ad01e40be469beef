"""Options of `dump` as one object, and their declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from msgspec import Struct

from kafkalog.cli.options.common import REPLICA, SHOW_SECRETS
from kafkalog.cli.options.numbers import Whole
from kafkalog.cli.options.paths import SERVER_PROPERTIES
from kafkalog.cli.options.remote import Remote, remote_options
from kafkalog.cli.options.times import AT, time_range_options
from kafkalog.codec.model import Codec
from kafkalog.log import ISOLATION_LEVELS

__all__ = ["Options", "dump_options"]

Function = TypeVar("Function", bound=Callable[..., Any])
_OFFSET = Whole(-(2**63), 2**63 - 1)
_COUNT = Whole(0, 2**63 - 1)
_BYTES = Whole(1, 2**31 - 1)


class Options(Struct, frozen=True, kw_only=True):
    """Every option of the command by its parameter's name; offsets and times have inclusive starts, exclusive ends."""

    paths: tuple[str, ...]
    given: frozenset[str] = frozenset()
    """names of those that were on the command line"""
    as_json: bool
    encoding: str
    values: str
    schemas: tuple[str, ...]
    masks: tuple[str, ...]
    only_batches: bool
    everything: bool
    deleted: bool
    isolation_level: str
    topics: tuple[str, ...]
    numbers: tuple[int, ...]
    excluded: tuple[str, ...]
    start_offset: int | None
    end_offset: int | None
    one_offset: int | None
    start_time: int | None
    end_time: int | None
    key: str | None
    key_regex: str | None
    value_regex: str | None
    headers: tuple[str, ...]
    header_regexes: tuple[str, ...]
    producer_ids: tuple[int, ...]
    codecs: tuple[str, ...]
    transactional: bool | None
    max_records: int | None
    with_metadata: bool
    redact: bool
    no_decode: bool
    show_secrets: bool
    parquet: str | None
    arrow: str | None
    replica: str | None
    server_properties: str | None
    at: int | None
    remote: Remote
    # kafka-dump-log's
    files: tuple[str, ...]
    print_data_log: bool
    deep_iteration: bool
    offsets_decoder: bool
    transaction_log_decoder: bool
    cluster_metadata_decoder: bool
    remote_log_metadata_decoder: bool
    share_group_state_decoder: bool
    key_decoder_class: str | None
    value_decoder_class: str | None
    skip_record_metadata: bool
    max_message_size: int | None
    max_bytes: int | None
    verify_index_only: bool
    index_sanity_check: bool
    # kcat's
    kcat_offsets: tuple[str, ...]
    group: str | None
    kcat_format: str | None
    envelope: bool
    message_delimiter: str
    key_delimiter: str | None
    null_text: bool
    serdes: tuple[str, ...]
    consumer: bool
    quiet: bool
    unbuffered: bool
    exits_at_end: bool

    @property
    def columns_file(self) -> str | None:
        """Path to which `--parquet` or `--arrow` writes."""
        return self.parquet if self.parquet is not None else self.arrow


_WHAT = (
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line."),
    click.option("--parquet", metavar="OUT", help="Write records to this new Parquet file, with the column names of "
                 "Spark's Kafka source."),
    click.option("--arrow", metavar="OUT", help="Write records to this new Arrow file (a stream if the name ends in "
        ".arrows), with the same columns."),
    click.option("--encoding", type=click.Choice(["text", "base64"]), default="text", show_default=True,
                 help="Bytes in JSON: text, with base64 in a _b64 field if they are not UTF-8, or always base64."),
    click.option("--values", type=click.Choice(["bytes", "auto"]), default="bytes", show_default=True,
                 help="Keys and values in JSON: bytes in the form of --encoding, or auto: decoded with their schemas, "
                 "as JSON, or as text."),
    click.option("--schemas", metavar="PATH", multiple=True,
                 help="Source of the schemas, as for `kafkalog schemas` [_schemas in PATH or beside it]."),
    click.option("--mask", "masks", metavar="FIELD", multiple=True,
                 help="Hide fields of this name in keys and values, and all of a key or value that cannot be decoded; "
                 "may be repeated."),
    click.option("--batches", "only_batches", is_flag=True, help="Print batches instead of records."),
    click.option("--metadata", "with_metadata", is_flag=True, help="Add fields of each record's batch: producer, "
        "epochs, compression, position."),
    click.option("--redact", is_flag=True, help="Print sizes and salted hashes instead of keys, values and header "
                 "values."),
    click.option("--no-decode", is_flag=True, help="Do not decode the records of Kafka's internal topics."),
    SHOW_SECRETS,
    click.option("--all", "everything", is_flag=True, help="Print all records in the files, including control "
        "records, aborted ones, those below the log start offset, and those after damage."),
    click.option("--deleted", is_flag=True, help="Print deleted data that is still on disk instead of live data: "
        "-delete and -stray directories, .deleted segments, and records below the log start offset."),
    click.option("--isolation-level", type=click.Choice(ISOLATION_LEVELS), default=ISOLATION_LEVELS[0],
                 show_default=True, help="read_committed leaves out aborted and open transactions."),
)  # fmt: skip

_WHICH = (
    click.option("-t", "--topic", "topics", metavar="TOPIC", multiple=True,
                 help="Only this topic: a name or a pattern with *, ? and [...]; may be repeated."),
    click.option("-p", "--partition", "numbers", metavar="N", type=Whole(-1, 2**31 - 1), multiple=True,
                 help="Only partitions with this number; may be repeated."),
    click.option("--exclude", "excluded", metavar="TOPIC[-N]", multiple=True,
                 help="Leave out this topic or partition: a name or a pattern; may be repeated."),
    click.option("--offset", "one_offset", type=Whole(0, 2**63 - 2), metavar="N",
                 help="Only the record at this offset."),
    click.option("--start-offset", type=_OFFSET, metavar="N", help="First offset (inclusive)."),
    click.option("--end-offset", type=_OFFSET, metavar="N", help="Offset after the last one (exclusive)."),
    time_range_options,
    AT,
    click.option("--key", help="Only records with exactly this key."),
    click.option("--key-regex", metavar="REGEX", help="Only records whose key matches this regular expression."),
    click.option("--value-regex", metavar="REGEX", help="Only records whose value matches this regular expression."),
    click.option("--header", "headers", multiple=True, metavar="NAME[=VALUE]", help="Only records with this header."),
    click.option("--header-regex", "header_regexes", multiple=True, metavar="NAME=REGEX",
                 help="Only records with this header whose value matches this regular expression."),
    click.option("--producer-id", "producer_ids", type=_OFFSET, metavar="ID", multiple=True,
                 help="Only records of this producer; may be repeated."),
    click.option("--codec", "codecs", type=click.Choice([codec.label for codec in Codec]), multiple=True,
                 help="Only records from batches with this compression; may be repeated."),
    click.option("--transactional/--not-transactional", default=None,
                 help="Only records that are, or are not, part of a transaction."),
    click.option("-n", "-c", "--max-records", type=_COUNT, metavar="N", help="Stop after this many lines."),
    remote_options,
    REPLICA,
    SERVER_PROPERTIES,
)  # fmt: skip

_KAFKA = (
    click.option("--files", multiple=True, metavar="FILE,...", help="Print these files like kafka-dump-log; the "
        "options below imply its format."),
    click.option("--print-data-log", is_flag=True, help="Print records below their batches."),
    click.option("--deep-iteration", is_flag=True, help="Print records below their batches, without keys and values."),
    click.option("--offsets-decoder", is_flag=True, help="Decode records as those of __consumer_offsets."),
    click.option("--transaction-log-decoder", is_flag=True, help="Decode records as those of __transaction_state."),
    click.option("--cluster-metadata-decoder", is_flag=True, help="Decode records as those of __cluster_metadata."),
    click.option("--remote-log-metadata-decoder", is_flag=True,
                 help="Decode records as those of __remote_log_metadata."),
    click.option("--share-group-state-decoder", is_flag=True, help="Decode records as those of __share_group_state."),
    click.option("--key-decoder-class", metavar="CLASS", help="Decode keys as String, Long, Integer or Double."),
    click.option("--value-decoder-class", metavar="CLASS", help="Decode values as String, Long, Integer or Double."),
    click.option("--skip-record-metadata", is_flag=True, help="Print only the keys and values of records."),
    click.option("--max-message-size", type=_BYTES, metavar="BYTES", help="Largest batch in bytes that index entries "
        "are compared with [5242880]."),
    click.option("--max-bytes", type=Whole(0, 2**31 - 1), metavar="BYTES",
                 help="Read at most this many bytes of each log file."),
    click.option("--verify-index-only", is_flag=True, help="Compare indexes with their logs without printing entries."),
    click.option("--index-sanity-check", is_flag=True, help="Check indexes only as far as a broker does at start."),
)  # fmt: skip

_KCAT = (
    click.option("-C", "consumer", is_flag=True, help="Print like kcat; implied by -f, -J, -D, -K, -Z and -s."),
    click.option("-o", "kcat_offsets", multiple=True, metavar="OFFSET",
                 help="Start: beginning, end, stored (with -G), N, -N (before the end) or s@MS; end: e@MS."),
    click.option("-G", "group", metavar="GROUP", help="Begin at this group's committed offset in __consumer_offsets."),
    click.option("-f", "kcat_format", metavar="FORMAT",
                 help="Output format: %s %S %R %k %K %T %h %t %p %o and \\n \\r \\t \\xXX."),
    click.option("-J", "envelope", is_flag=True, help="Print kcat's JSON envelope."),
    click.option("-D", "message_delimiter", default="\\n", metavar="TEXT", help="Delimiter printed after each record."),
    click.option("-K", "key_delimiter", metavar="TEXT", help="Also print keys, each followed by this delimiter."),
    click.option("-Z", "null_text", is_flag=True, help="Print NULL for null and empty keys and values."),
    click.option("-s", "serdes", multiple=True, metavar="[key=|value=]LETTERS",
                 help="Unpack keys and values with these letters: < > b B h H i I q Q c s $."),
    click.option("-e", "exits_at_end", is_flag=True, help="Stop at the end of the log (always; accepted because kcat "
        "has it)."),
    click.option("-q", "quiet", is_flag=True, help="Do not print progress or remarks; findings are still printed."),
    click.option("-u", "unbuffered", is_flag=True, help="Flush the output after each record."),
)  # fmt: skip


class SectionedCommand(click.Command):
    """A command whose help has its options in three parts."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of a command into its help, in three sections: kafkalog's own, those of kafka-dump-log,
        and those of kcat's consumer. Overrides `click.Command.format_options`; hidden options are omitted.
        """
        parameters = [get_param for get_param in self.get_params(ctx) if get_param.get_help_record(ctx) is not None]
        for heading, theirs in (("Options", None), ("As kafka-dump-log", _KAFKA), ("As kcat", _KCAT)):
            names = None if theirs is None else _names_of(theirs)
            others = _names_of((*_KAFKA, *_KCAT))
            records = [
                record
                for parameter in parameters
                if (parameter.name not in others if names is None else parameter.name in names)
                and (record := parameter.get_help_record(ctx)) is not None
            ]
            with formatter.section(heading):
                formatter.write_dl(records)


def _names_of(options: Iterable[Callable[[Any], Any]]) -> frozenset[str]:
    """Return the names of the parameters that some `click.option` decorators declare, by applying them to an empty
    function.
    """

    def nothing() -> None:
        """Takes the declarations."""

    declared: Any = nothing
    for option in options:
        declared = option(declared)
    return frozenset(click_param.name for click_param in declared.__click_params__)


def dump_options(function: Function) -> Function:
    """All options but those that are only refused, in the order of the help."""
    for option in reversed((*_WHAT, *_WHICH, *_KAFKA, *_KCAT)):
        function = option(function)
    return function
