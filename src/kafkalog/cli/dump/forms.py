"""Output forms of `dump`, and the options that have an effect in each; every other option is refused by name."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import click

from kafkalog.cli.dump.kafka_indexes import is_index
from kafkalog.cli.dump.request import KAFKA_DUMP_LOG, Dump, options_under
from kafkalog.codec.common.errors import UsageError

__all__ = ["Form", "decoded_topic", "form_of", "names_of", "refuse_meaningless"]


class Form(enum.Enum):
    """Output form of `dump`; the value completes the sentence "… has no effect …"."""

    TEXT = "for records as text"
    JSON = "with --json"
    BATCHES = "with --batches"
    KAFKA = "for what kafka-dump-log prints"
    KCAT = "for what kcat prints"
    COLUMNS = "for a file of columns"
    SIDE_FILES = "for indexes, snapshots and checkpoints"


_WHERE = {
    "paths",
    "files",
    "topics",
    "numbers",
    "excluded",
    "replica",
    "deleted",
    "everything",
    "quiet",
    "exits_at_end",
    "server_properties",
    "remote",
    "layout",
    "storage",
    "private_keys",
}
_RANGE = {
    "start_offset", "end_offset", "one_offset", "kcat_offsets", "group", "max_records", "start_time", "end_time", "at",
}  # fmt: skip
_OF_BATCHES = {"producer_ids", "codecs", "transactional"}
_OF_RECORDS = {"key", "key_regex", "value_regex", "headers", "header_regexes", "isolation_level", "redact"}
_SELECTION = _WHERE | _RANGE | _OF_BATCHES | _OF_RECORDS
_DECODERS = {
    "offsets_decoder": "__consumer_offsets",
    "transaction_log_decoder": "__transaction_state",
    "cluster_metadata_decoder": "__cluster_metadata",
    "remote_log_metadata_decoder": "__remote_log_metadata",
    "share_group_state_decoder": "__share_group_state",
}
_CLASSES = {"key_decoder_class", "value_decoder_class"}
_OF_INDEXES = {"max_message_size", "verify_index_only", "index_sanity_check"}
_OF_RECORDS_BENEATH = _OF_RECORDS | {"start_time", "end_time", "with_metadata"}
_OF_KAFKA = options_under(KAFKA_DUMP_LOG)
_OF_KCAT = {"kcat_format", "envelope", "message_delimiter", "key_delimiter", "null_text", "serdes", "consumer"}

_MEANT = {
    Form.TEXT: _SELECTION | {"with_metadata", "no_decode", "show_secrets", "unbuffered"},
    Form.JSON: _SELECTION
    | {"as_json", "encoding", "values", "schemas", "masks"}
    | {"with_metadata", "no_decode", "show_secrets", "unbuffered"},
    Form.BATCHES: _WHERE | _RANGE | _OF_BATCHES | {"only_batches", "as_json", "unbuffered"},
    Form.KAFKA: (_SELECTION - {"isolation_level", "everything"})
    | _OF_KAFKA
    | {"with_metadata", "show_secrets", "unbuffered"},
    Form.KCAT: _SELECTION | _OF_KCAT | {"unbuffered"},
    Form.COLUMNS: _SELECTION | {"parquet", "arrow", "with_metadata"},
    Form.SIDE_FILES: {
        "paths",
        "as_json",
        "max_records",
        "quiet",
        "exits_at_end",
        "unbuffered",
        "files",
        "show_secrets",
    },
}


def form_of(request: Dump) -> Form:
    """Return the output form that the options select. If they select several, the order of precedence is: a file of
    columns, kcat's lines, kafka-dump-log's lines, batches, JSON lines, text. `--files` selects kafka-dump-log's lines,
    but has no influence together with --batches or --json.
    """
    given = request.given
    if request.columns_file is not None:
        return Form.COLUMNS
    if given & _OF_KCAT:
        return Form.KCAT
    if given & (_OF_KAFKA - {"files"}) or (request.files and not (request.only_batches or request.as_json)):
        return Form.KAFKA
    if request.only_batches:
        return Form.BATCHES
    return Form.JSON if request.as_json else Form.TEXT


def names_of(parameters: Iterable[click.Parameter]) -> dict[str, str]:
    """Return, for each parameter of the command, its option as shown in the help."""
    return {parameter.name: max(parameter.opts, key=len) for parameter in parameters if parameter.name is not None}


def refuse_meaningless(request: Dump, form: Form, names: dict[str, str], *, side_files: Sequence[str]) -> None:
    """Raise `UsageError` for the first option without an effect in this output form, or for options that contradict
    each other; otherwise return None. `names` has the option for each parameter name, for messages; `side_files` are
    the paths of indexes, snapshots and checkpoints.
    """
    if "encoding" in request.given and not request.as_json:
        raise UsageError("--encoding has no effect without --json")
    for each in (form, *([Form.SIDE_FILES] if side_files else [])):
        meant = _MEANT[each] | (_OF_KAFKA if each is Form.SIDE_FILES and form is Form.KAFKA else set())
        for name in sorted(request.given - meant):
            raise UsageError(f"{names[name]} has no effect {each.value}")
    if "at" in request.given and not request.given & {"start_time", "end_time"}:
        raise UsageError("--at has no effect without --since or --until, which may be counted from it")
    for name in ("schemas", "masks"):
        if name in request.given and request.values != "auto":
            raise UsageError(f"{names[name]} has no effect without --values auto")
    if request.columns_file == "":
        raise UsageError("--parquet and --arrow need the name of a file")
    if -1 in request.numbers and len(set(request.numbers)) > 1:
        raise UsageError("-p -1 means every partition: leave out the other numbers, or -1")
    for first, end in (("start_offset", "end_offset"), ("start_time", "end_time")):
        low, high = getattr(request, first), getattr(request, end)
        if low is not None and high is not None and high < low:
            raise UsageError(f"{names[end]} is before {names[first]}: nothing can lie between them")
    _refuse_pairs(request, names)
    _refuse_of_kafka(request, names)
    if form is Form.KAFKA:
        _refuse_without_effect(request, names, side_files)


def _refuse_pairs(request: Dump, names: dict[str, str]) -> None:
    pairs = (
        ("one_offset", ("start_offset", "end_offset", "kcat_offsets", "group"), "is one offset"),
        ("start_offset", ("kcat_offsets", "group"), "says where to begin"),
        ("no_decode", ("show_secrets",), "leaves records as they are, secrets included"),
        ("redact", ("serdes",), "leaves nothing to unpack"),
        ("values", ("encoding",), "says how keys and values are shown"),
        ("redact", ("values",), "leaves nothing to decode"),
        ("redact", ("show_secrets", "no_decode", *_DECODERS, *_CLASSES), "decodes nothing"),
        ("parquet", ("arrow",), "is one file"),
        ("server_properties", ("files",), "says which directories are read"),
        ("envelope", ("kcat_format", "key_delimiter", "serdes", "null_text"), "is an envelope of its own"),
        ("kcat_format", ("key_delimiter", "message_delimiter"), "says what is between records"),
    )
    for name, others, why in pairs:
        for other in others:
            if {name, other} <= request.given:
                raise UsageError(f"{names[other]} has no effect with {names[name]}, which {why}")


def _refuse_without_effect(request: Dump, names: dict[str, str], side_files: Sequence[str]) -> None:
    """Raise `UsageError` for the first option that has no effect in kafka-dump-log's form. Such options are `-o e@MS`,
    and `--show-secrets` without a decoder of an internal topic. An option about records has no effect if no records are
    printed, one about indexes if none of `side_files` is an index. `names` has the option for each parameter name.
    `side_files` are the paths of index, snapshot and checkpoint files.
    """
    given = request.given
    if not given & {"print_data_log", "deep_iteration", *_DECODERS, *_CLASSES}:
        for name in sorted(given & _OF_RECORDS_BENEATH):
            raise UsageError(f"{names[name]} has no effect without records: add --print-data-log or --deep-iteration")
    if request.show_secrets and decoded_topic(request) is None:
        raise UsageError("--show-secrets has no effect without a decoder, such as --cluster-metadata-decoder")
    if any(text.startswith("e@") for text in request.kcat_offsets):
        raise UsageError(f"-o e@MS has no effect {Form.KAFKA.value}: --until ends at a time")
    if not any(is_index(path) for path in side_files):
        for name in sorted(given & _OF_INDEXES):
            raise UsageError(f"{names[name]} has no effect without an index among the files")


def _refuse_of_kafka(request: Dump, names: dict[str, str]) -> None:
    decoders = sorted(request.given & set(_DECODERS)) or sorted(request.given & _CLASSES)[:1]
    if len(decoders) > 1 or (request.given & _CLASSES and request.given & set(_DECODERS)):
        one = sorted(request.given & (set(_DECODERS) | _CLASSES))
        raise UsageError(f"{' and '.join(names[each] for each in one)} cannot both say what the records are")
    if request.skip_record_metadata and not decoders and not request.print_data_log:
        raise UsageError("--skip-record-metadata needs --print-data-log or a decoder")
    if request.skip_record_metadata and request.with_metadata:
        raise UsageError("--skip-record-metadata and --metadata cannot be used together")
    if request.verify_index_only and request.index_sanity_check:
        raise UsageError("--verify-index-only and --index-sanity-check cannot be used together")


def decoded_topic(request: Dump) -> str | None:
    """Return the internal topic whose decoder was requested by an option; None if there is none."""
    return next((topic for name, topic in _DECODERS.items() if getattr(request, name)), None)
