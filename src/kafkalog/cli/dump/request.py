"""The request of `dump` as one object, whose fields declare the command's options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import click
from msgspec import Struct

from kafkalog.cli.options.common import REPLICA, SHOW_SECRETS
from kafkalog.cli.options.paths import SERVER_PROPERTIES
from kafkalog.cli.options.remote import Remote, remote_options
from kafkalog.cli.options.requests import request_option
from kafkalog.cli.options.times import AT, time_range_options
from kafkalog.codec.common.options import Option, options_of_fields
from kafkalog.codec.model import Codec
from kafkalog.log import ISOLATION_LEVELS

__all__ = ["KAFKA_DUMP_LOG", "Dump", "SectionedCommand", "dump_options", "options_under"]

Function = TypeVar("Function", bound=Callable[..., Any])
KAFKA_DUMP_LOG = "As kafka-dump-log"
KCAT = "As kcat"
_dump_log, _kcat = (partial(Option, heading=heading) for heading in (KAFKA_DUMP_LOG, KCAT))
_OFFSETS = (-(2**63), 2**63 - 1)


class Dump(Struct, frozen=True, kw_only=True):
    """Request to print records, batches or the entries of other files; offsets and times have inclusive starts and
    exclusive ends.
    """

    paths: tuple[str, ...]
    given: frozenset[str] = frozenset()
    """names of the fields whose options were on the command line"""
    as_json: Annotated[bool, Option("--json", "Print one JSON object per line.")] = False
    parquet: Annotated[
        str | None,
        Option("--parquet", "Write records to this new Parquet file, with the column names of Spark's Kafka source.",
               "OUT"),
    ] = None
    arrow: Annotated[
        str | None,
        Option("--arrow", "Write records to this new Arrow file (a stream if the name ends in .arrows), with the same "
               "columns.", "OUT"),
    ] = None
    encoding: Annotated[
        str,
        Option("--encoding", "Bytes in JSON: text, with base64 in a _b64 field if they are not UTF-8, or always "
               "base64.", choices=("text", "base64")),
    ] = "text"
    values: Annotated[
        str,
        Option("--values", "Keys and values in JSON: bytes in the form of --encoding, or auto: decoded with their "
               "schemas, as JSON, or as text.", choices=("bytes", "auto")),
    ] = "bytes"
    schemas: Annotated[
        tuple[str, ...],
        Option("--schemas", "Source of the schemas, as for `kafkalog schemas` [_schemas in PATH or beside it].",
               "PATH"),
    ] = ()
    masks: Annotated[
        tuple[str, ...],
        Option("--mask", "Hide fields of this name in keys and values, and all of a key or value that cannot be "
               "decoded; may be repeated.", "FIELD"),
    ] = ()
    only_batches: Annotated[bool, Option("--batches", "Print batches instead of records.")] = False
    with_metadata: Annotated[
        bool, Option("--metadata", "Add fields of each record's batch: producer, epochs, compression, position.")
    ] = False
    redact: Annotated[
        bool, Option("--redact", "Print sizes and salted hashes instead of keys, values and header values.")
    ] = False
    no_decode: Annotated[bool, Option("--no-decode", "Do not decode the records of Kafka's internal topics.")] = False
    show_secrets: bool = False
    everything: Annotated[
        bool,
        Option("--all", "Print all records in the files, including control records, aborted ones, those below the log "
               "start offset, and those after damage."),
    ] = False
    deleted: Annotated[
        bool,
        Option("--deleted", "Print deleted data that is still on disk instead of live data: -delete and -stray "
               "directories, .deleted segments, and records below the log start offset."),
    ] = False
    isolation_level: Annotated[
        str,
        Option("--isolation-level", "read_committed leaves out aborted and open transactions.",
               choices=ISOLATION_LEVELS),
    ] = ISOLATION_LEVELS[0]
    topics: Annotated[
        tuple[str, ...],
        Option("--topic", "Only this topic: a name or a pattern with *, ? and [...]; may be repeated.", "TOPIC",
               also=("-t",)),
    ] = ()
    numbers: Annotated[
        tuple[int, ...],
        Option("--partition", "Only partitions with this number; may be repeated.", "N", also=("-p",),
               within=(-1, 2**31 - 1)),
    ] = ()
    excluded: Annotated[
        tuple[str, ...],
        Option("--exclude", "Leave out this topic or partition: a name or a pattern; may be repeated.", "TOPIC[-N]"),
    ] = ()
    one_offset: Annotated[
        int | None, Option("--offset", "Only the record at this offset.", "N", within=(0, 2**63 - 2))
    ] = None
    start_offset: Annotated[
        int | None, Option("--start-offset", "First offset (inclusive).", "N", within=_OFFSETS)
    ] = None
    end_offset: Annotated[
        int | None, Option("--end-offset", "Offset after the last one (exclusive).", "N", within=_OFFSETS)
    ] = None
    start_time: int | None = None
    """ms since 1970, like `end_time`; both have the options of `time_range_options`"""
    end_time: int | None = None
    at: int | None = None
    """time to treat as now, ms since 1970"""
    key: Annotated[str | None, Option("--key", "Only records with exactly this key.")] = None
    key_regex: Annotated[
        str | None, Option("--key-regex", "Only records whose key matches this regular expression.", "REGEX")
    ] = None
    value_regex: Annotated[
        str | None, Option("--value-regex", "Only records whose value matches this regular expression.", "REGEX")
    ] = None
    headers: Annotated[tuple[str, ...], Option("--header", "Only records with this header.", "NAME[=VALUE]")] = ()
    header_regexes: Annotated[
        tuple[str, ...],
        Option("--header-regex", "Only records with this header whose value matches this regular expression.",
               "NAME=REGEX"),
    ] = ()
    producer_ids: Annotated[
        tuple[int, ...],
        Option("--producer-id", "Only records of this producer; may be repeated.", "ID", within=_OFFSETS),
    ] = ()
    codecs: Annotated[
        tuple[str, ...],
        Option("--codec", "Only records from batches with this compression; may be repeated.",
               choices=tuple(codec.label for codec in Codec)),
    ] = ()
    transactional: Annotated[
        bool | None,
        Option("--transactional/--not-transactional", "Only records that are, or are not, part of a transaction."),
    ] = None
    max_records: Annotated[
        int | None,
        Option("--max-records", "Stop after this many lines.", "N", also=("-n", "-c"), within=(0, 2**63 - 1)),
    ] = None
    remote: Remote
    replica: str | None = None
    server_properties: str | None = None
    files: Annotated[
        tuple[str, ...],
        _dump_log("--files", "Print these files like kafka-dump-log; the options below imply its format.", "FILE,..."),
    ] = ()
    print_data_log: Annotated[bool, _dump_log("--print-data-log", "Print records below their batches.")] = False
    deep_iteration: Annotated[
        bool, _dump_log("--deep-iteration", "Print records below their batches, without keys and values.")
    ] = False
    offsets_decoder: Annotated[
        bool, _dump_log("--offsets-decoder", "Decode records as those of __consumer_offsets.")
    ] = False
    transaction_log_decoder: Annotated[
        bool, _dump_log("--transaction-log-decoder", "Decode records as those of __transaction_state.")
    ] = False
    cluster_metadata_decoder: Annotated[
        bool, _dump_log("--cluster-metadata-decoder", "Decode records as those of __cluster_metadata.")
    ] = False
    remote_log_metadata_decoder: Annotated[
        bool, _dump_log("--remote-log-metadata-decoder", "Decode records as those of __remote_log_metadata.")
    ] = False
    share_group_state_decoder: Annotated[
        bool, _dump_log("--share-group-state-decoder", "Decode records as those of __share_group_state.")
    ] = False
    key_decoder_class: Annotated[
        str | None, _dump_log("--key-decoder-class", "Decode keys as String, Long, Integer or Double.", "CLASS")
    ] = None
    value_decoder_class: Annotated[
        str | None, _dump_log("--value-decoder-class", "Decode values as String, Long, Integer or Double.", "CLASS")
    ] = None
    skip_record_metadata: Annotated[
        bool, _dump_log("--skip-record-metadata", "Print only the keys and values of records.")
    ] = False
    max_message_size: Annotated[
        int | None,
        _dump_log("--max-message-size", "Largest batch in bytes that index entries are compared with [5242880].",
                  "BYTES", within=(1, 2**31 - 1)),
    ] = None
    max_bytes: Annotated[
        int | None,
        _dump_log("--max-bytes", "Read at most this many bytes of each log file.", "BYTES", within=(0, 2**31 - 1)),
    ] = None
    verify_index_only: Annotated[
        bool, _dump_log("--verify-index-only", "Compare indexes with their logs without printing entries.")
    ] = False
    index_sanity_check: Annotated[
        bool, _dump_log("--index-sanity-check", "Check indexes only as far as a broker does at start.")
    ] = False
    consumer: Annotated[bool, _kcat("-C", "Print like kcat; implied by -f, -J, -D, -K, -Z and -s.")] = False
    kcat_offsets: Annotated[
        tuple[str, ...],
        _kcat("-o", "Start: beginning, end, stored (with -G), N, -N (before the end) or s@MS; end: e@MS.", "OFFSET"),
    ] = ()
    group: Annotated[
        str | None, _kcat("-G", "Begin at this group's committed offset in __consumer_offsets.", "GROUP")
    ] = None
    kcat_format: Annotated[
        str | None, _kcat("-f", "Output format: %s %S %R %k %K %T %h %t %p %o and \\n \\r \\t \\xXX.", "FORMAT")
    ] = None
    envelope: Annotated[bool, _kcat("-J", "Print kcat's JSON envelope.")] = False
    message_delimiter: Annotated[str, _kcat("-D", "Delimiter printed after each record.", "TEXT")] = "\\n"
    key_delimiter: Annotated[
        str | None, _kcat("-K", "Also print keys, each followed by this delimiter.", "TEXT")
    ] = None
    null_text: Annotated[bool, _kcat("-Z", "Print NULL for null and empty keys and values.")] = False
    serdes: Annotated[
        tuple[str, ...],
        _kcat("-s", "Unpack keys and values with these letters: < > b B h H i I q Q c s $.", "[key=|value=]LETTERS"),
    ] = ()
    exits_at_end: Annotated[
        bool, _kcat("-e", "Stop at the end of the log (always; accepted because kcat has it).")
    ] = False
    quiet: Annotated[bool, _kcat("-q", "Do not print progress or remarks; findings are still printed.")] = False
    unbuffered: Annotated[bool, _kcat("-u", "Flush the output after each record.")] = False

    @property
    def columns_file(self) -> str | None:
        """Path to which `--parquet` or `--arrow` writes; None without both."""
        return self.parquet if self.parquet is not None else self.arrow


_SHARED: dict[str, Callable[[Any], Any]] = {
    "show_secrets": SHOW_SECRETS, "start_time": time_range_options, "at": AT, "remote": remote_options,
    "replica": REPLICA, "server_properties": SERVER_PROPERTIES,
}  # fmt: skip
"""Options that other commands share, by the first field that they fill."""


def options_under(heading: str) -> frozenset[str]:
    """Return the names of the fields whose options are listed under this heading in the help."""
    return frozenset(name for name, option in options_of_fields(Dump).items() if option.heading == heading)


class SectionedCommand(click.Command):
    """A command whose help lists its options in three sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command into its help, in three sections: kafkalog's own, the options of
        kafka-dump-log, and the options of kcat's consumer. Overrides `click.Command.format_options`; hidden options are
        omitted.
        """
        sections: dict[str, list[tuple[str, str]]] = {"": [], KAFKA_DUMP_LOG: [], KCAT: []}
        declared = options_of_fields(Dump)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                option = declared.get(parameter.name or "")
                sections["" if option is None else option.heading].append(record)
        for heading, records in sections.items():
            with formatter.section(heading or "Options"):
                formatter.write_dl(records)


def dump_options(function: Function) -> Function:
    """Add the options of `dump` to a click command, in the order of the help, and return the command. Options that only
    exist to be refused are not among them.
    """
    declared = options_of_fields(Dump)
    for name in reversed(Dump.__struct_fields__):
        if name in _SHARED:
            function = _SHARED[name](function)
        elif name in declared:
            function = request_option(Dump, name)(function)
    return function
