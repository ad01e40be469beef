"""Every error and every class of values can be pickled and copied: between processes, and into a cache."""

from __future__ import annotations

import collections.abc
import copy
import enum
import inspect
import multiprocessing
import os
import pickle
import pkgutil
import re
import sys
import types
import typing
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import kafkalog
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.plain.records import records_payload
from kafkalog.jobs.restore.remote_logs import RemoteLogs
from kafkalog.recovery.facts.recovery_request import RemoteLogSource
from kafkalog.tables.request import Export
from testkit.made.batches import simple
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import broker_case

HELD = {
    "kafkalog.cli.dump.decoders.DecoderClasses": "functions that are asked",
    "kafkalog.cli.dump.record_lines.RecordText": "functions that are asked",
    "kafkalog.cli.dump.sinks.JsonSink": "where a command writes",
    "kafkalog.cli.dump.kcat.sink.KcatSink": "where a command writes",
    "kafkalog.cli.dump.sinks.TextSink": "where a command writes",
    "kafkalog.log.reading.in_order._Own": "a work that is under way",
    "kafkalog.log.writing.loading.Loaded": "a log that is open",
    "kafkalog.values.arrow_column._Way": "functions that are asked",
    "kafkalog.values.arrow_column.Decoded": "columns of Arrow's",
    "kafkalog.tables.exporting._TopicExport": "a table that is written to",
    "kafkalog.tables.rows.Rows": "columns of Arrow's",
    "kafkalog.spark.decoded.DecodedBatch": "columns of Arrow's",
    "kafkalog.values.pushdown.Reach": "an expression of Arrow's",
    "kafkalog.tiers.both_tiers.BothTiers": "a remote tier, which is listed and mounted",
    "kafkalog.log.directories.side_files.SideFile": "entries that are read when they are asked for",
    "kafkalog.recovery.act.apply.Located": "operations, each of which is tried by itself",
    "kafkalog.recovery.act.script.Script": "operations, each of which is tried by itself",
    "kafkalog.log.storage.cleaning.batch_retention.BatchRetention": "a log that is being cleaned",
    "kafkalog.log.storage.cleaning.cleanable_log.CleanableLog": "a log that is open",
    "kafkalog.log.storage.loader.LoadRequest": "a function that is asked",
    "kafkalog.log.storage.loader.LoadedLog": "a tree, which reads its originals",
    "kafkalog.recovery.broker.manager.BrokerResult": "a tree, which reads its originals",
    "kafkalog.recovery.safe.result.SafeResult": "a tree, which reads its originals",
    "kafkalog.recovery.decide.forecasts.Forecasts": "a tree, which reads its originals",
    "kafkalog.recovery.decide.refusals.Decision": "a tree, which reads its originals",
    "kafkalog.recovery.decide.counting.WayResult": "a tree, which reads its originals",
    "kafkalog.codec.derive.FixedLayout": "a layout that is made by whoever imports it",
    "kafkalog.codec.rules.batch_fields.BatchField": "functions that are asked",
    "kafkalog.codec.columnar.schema.Column": "functions that are asked",
    "kafkalog.codec.native.tables.Rows": "an enumeration without members",
    "kafkalog.codec.columnar.pieces.Part": "memory of a kernel",
    "kafkalog.codec.columnar.message_sets.Opened": "memory of a kernel",
    "kafkalog.codec.columnar.decompressed.Decompressed": "memory of a kernel",
    "kafkalog.codec.columnar.decompressed.OpenedBatches": "memory of a kernel",
    "kafkalog.server.answers.Later": "functions that are asked",
    "kafkalog.server.answering.Shared": "threads and what they share",
    "kafkalog.server.broker.ServerOptions": "keys of TLS",
    "kafkalog.server.catalog.Topic": "logs that are open",
    "kafkalog.server.files.FileRange": "a file that is open",
    "kafkalog.server.handlers.fetch._Found": "a file that is open",
    "kafkalog.server.served_log.Read": "a file that is open",
}
"""Classes that hold what cannot leave a process, and what that is; all others are values."""
LEFT = {"Survey._kept", "Survey._open", "Survey._pristine", "Survey.on_read", "Survey.scratch", "Survey.tables"}
"""Fields of values that stay in their process: what is open or was read already, who is told of reads."""
_DEPTH = 4


def pickled(protocol: int, value: Any) -> Any:
    return pickle.loads(pickle.dumps(value, protocol))


TURNS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {number}": partial(pickled, number) for number in range(2, pickle.HIGHEST_PROTOCOL + 1)},
}


@cache
def classes() -> dict[str, type]:
    """All that are defined in the package, by name."""
    found = {}
    for module in pkgutil.walk_packages(kafkalog.__path__, "kafkalog."):
        if module.name != "kafkalog.__main__":
            for value in vars(import_module(module.name)).values():
                if inspect.isclass(value) and value.__module__ == module.name:
                    found[f"{module.name}.{value.__qualname__}"] = value
    return found


def is_value(kind: type) -> bool:
    return has_fields(kind) or issubclass(kind, enum.Enum)


def has_fields(kind: type) -> bool:
    """Whether it is a Struct, a dataclass or a named tuple."""
    return any(hasattr(kind, name) for name in ("__struct_fields__", "__dataclass_fields__", "_fields"))


ERRORS = sorted(name for name, kind in classes().items() if issubclass(kind, BaseException))
VALUES = sorted(name for name, kind in classes().items() if is_value(kind) and name not in HELD)


def hints(what: Any, module: str) -> dict[str, Any]:
    """Annotations as types; what is imported for them alone is found by its name."""
    names = {kind.__name__: kind for kind in classes().values()}
    bases = [kind.__module__ for kind in reversed(getattr(what, "__mro__", ())) if kind.__module__ in sys.modules]
    known = {name: value for base in (*bases, module) for name, value in vars(import_module(base)).items()}
    found = typing.get_type_hints(what, {**names, **known})
    return {name: hint for name, hint in found.items() if name != "return"}


_HELD: dict[Any, Any] = {collections.abc.Callable: len, re.Pattern: re.compile(b"x")}


def example(hint: Any, depth: int = 0) -> Any:  # noqa: C901 - a list of kinds
    """A value of a type; where there is a choice, the one that is harder to copy."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if memoryview in arguments:
            return memoryview(bytearray(b"bytes of somebody else"))
        wanted = [each for each in arguments if each is not type(None)]
        if typing.get_origin(wanted[-1]) is collections.abc.Callable:
            return None
        return None if depth > _DEPTH and type(None) in arguments else example(wanted[-1], depth + 1)
    if origin is typing.Literal:
        return arguments[0]
    if origin is os.PathLike:
        return "path"
    if hint is msgspec.UnsetType:
        return msgspec.UNSET
    if origin is tuple:
        if arguments[-1:] == (...,):
            return (example(arguments[0], depth + 1),) if depth <= _DEPTH else ()
        return tuple(example(each, depth + 1) for each in arguments)
    if origin in (list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable):
        content = [example(arguments[0], depth + 1)] if depth <= _DEPTH else []
        return (origin if isinstance(origin, type) and origin in (list, set, frozenset) else list)(content)
    if origin in (dict, collections.abc.Mapping):
        return {example(arguments[0], depth + 1): example(arguments[1], depth + 1)} if depth <= _DEPTH else {}
    if hint is HeaderTables:  # compiled headers at hand, which are read again
        return None
    if isinstance(hint, typing.NewType):
        return example(hint.__supertype__, depth)
    if origin in _HELD:
        return _HELD[origin]
    if isinstance(origin, type) and issubclass(origin, dict):
        return origin()
    if isinstance(origin, type):
        return instance(origin, depth, dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False)))
    plain = {
        int: 7, str: "seven", bytes: b"seven", bool: True, float: 0.5, object: "any", Any: "any", range: range(3),
        pa.DataType: pa.int64(),
    }  # fmt: skip
    if hint in plain:
        return plain[hint]
    return instance(hint, depth)


def instance(kind: type[Any], depth: int = 0, variables: dict[Any, Any] | None = None) -> Any:
    """An instance of a class, every argument made up from its type."""
    if kind is Export:  # of the formats that exist
        return Export(format="delta")
    if kind is RemoteLogSource:
        return instance(RemoteLogs, depth)
    if issubclass(kind, enum.Enum):
        return list(kind)[-1]
    if issubclass(kind, OSError):
        return kind(28, "no space is left", "/logs/t-0/0.log")
    maker = kind.__init__
    if not has_fields(kind) and not isinstance(maker, types.FunctionType):  # an exception that says a sentence
        return kind("something is wrong")
    any_will_do = dict.fromkeys(getattr(kind, "__parameters__", ()), object)
    own = inspect.signature(kind).parameters.values()
    annotated = hints(kind if has_fields(kind) else maker, kind.__module__)
    positional, named = [], {}
    for each in own:
        if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            continue
        hint = annotated[each.name]
        value = example({**any_will_do, **(variables or {})}.get(hint, hint), depth + 1)
        if each.kind is each.KEYWORD_ONLY:
            named[each.name] = value
        else:
            positional.append(value)
    try:
        return kind(*positional, **named)
    except kafkalog.UsageError:  # it checks what it is given: its own defaults will do
        return kind()


def state(value: object) -> object:
    """What a value is made of, as text that can be compared."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, BaseException):
        system = (getattr(value, name, None) for name in ("errno", "strerror", "filename"))
        return type(value), str(value), *system, {key: state(each) for key, each in vars(value).items()}
    if isinstance(value, enum.Enum):
        return value
    fields: Sequence[str] = getattr(value, "__struct_fields__", None) or [*getattr(value, "__dataclass_fields__", ())]
    if fields:
        names = [name for name in fields if f"{type(value).__name__}.{name}" not in LEFT]
        return type(value), tuple(state(getattr(value, name)) for name in names)
    if isinstance(value, dict):
        return {state(key): state(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value), tuple(state(each) for each in value)
    if isinstance(value, set | frozenset):
        return type(value), frozenset(state(each) for each in value)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    if type(value).__module__.startswith("kafkalog") and (slots or hasattr(value, "__dict__")):
        held = {**getattr(value, "__dict__", {}), **{name: getattr(value, name, None) for name in slots}}
        return type(value), {key: state(each) for key, each in held.items()}
    return value


def survives(value: object) -> None:
    wanted = state(value)
    for name, turn in TURNS.items():
        assert state(turn(value)) == wanted, name


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_keeps_what_it_says(name: str, measured: Callable[[str, int], None]) -> None:
    survives(instance(classes()[name]))
    measured("error classes that were pickled and copied", 1)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_stays_itself(name: str, measured: Callable[[str, int], None]) -> None:
    survives(instance(classes()[name]))
    measured("classes of values that were pickled and copied", 1)


def test_only_what_is_there_is_left_out() -> None:
    assert set(HELD) <= {name for name, kind in classes().items() if is_value(kind)}


def test_what_reading_a_directory_gives_survives(measured: Callable[[str, int], None]) -> None:
    (path,) = brokers(broker_case("4.1.1", "txn").id)
    log_dir = kafkalog.open(path)
    found: list[object] = [log_dir, kafkalog.verify(path), kafkalog.open_all(path), kafkalog.plan(path)[0]]
    for partition in log_dir.partitions:
        found += partition.batches()
        found += partition.records()
        found += [kafkalog.decode_batch(batch) for batch in partition.batches()]
        found.append(kafkalog.scan(memoryview(Path(partition.segments[0].path).read_bytes())))
    for value in found:
        survives(value)
    measured("objects read from a broker's directory that were pickled and copied", len(found))


def over_the_limit(data: bytes) -> int:
    (batch,) = kafkalog.scan(data).batches
    return len(records_payload(batch, kafkalog.Limits(decompressed_batch_bytes=2)))


@pytest.mark.sweep
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_an_error_comes_back_from_another_process(method: str) -> None:
    with multiprocessing.get_context(method).Pool(1) as pool:
        waiting = pool.apply_async(over_the_limit, (simple(3, 0),))
        with pytest.raises(kafkalog.LimitExceeded) as caught:
            waiting.get(timeout=60)  # an error that cannot be pickled ends the thread that hands results on
    assert caught.value.limit == "decompressed_batch_bytes"
