"""Whatever a public function is given, what comes out is an error of the library: a sentence, never a traceback."""

from __future__ import annotations

import array
import importlib
import inspect
import itertools
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import kafkalog
from kafkalog import replay
from kafkalog.codec import BufferSource
from kafkalog.codec.common.arguments import byte_view
from kafkalog.codec.common.options import options_of_fields
from kafkalog.codec.encode.batch import NO_PRODUCER
from kafkalog.replay.request import Replay
from kafkalog.tiers.local_tiered_storage import LocalTieredStorage
from kafkalog.types import Inventory
from testkit.made.batches import simple
from testkit.running.examples import examples

PUBLIC = ("kafkalog", "kafkalog.codec", "kafkalog.log", "kafkalog.recovery", "kafkalog.cluster.zookeeper")
CLASSES = (
    kafkalog.Log, kafkalog.Partition, kafkalog.LogDir, Inventory, kafkalog.Producer,
)  # fmt: skip
LEFT = {"close", "fail"}
"""Methods without an argument to be wrong, or that are told of errors."""


def functions() -> dict[str, Callable[..., Any]]:
    """Every public function, by its full name."""
    found: dict[str, Callable[..., Any]] = {}
    for name in PUBLIC:
        module = importlib.import_module(name)
        for each in getattr(module, "__all__", ()):
            value = getattr(module, each)
            if isinstance(value, types.FunctionType):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafkalog.LogDir]:
    root = tmp_path_factory.mktemp("logs") / "data"
    root.mkdir()
    root.with_name("written").mkdir()
    before = Path.cwd()
    os.chdir(root.parent)  # what is opened for writing by a relative name is there
    with kafkalog.Log.open(root / "t-0") as log:
        log.append([kafkalog.NewRecord(b"a"), kafkalog.NewRecord(b"b", b"k")])
        log.append([b"c"], compression="zstd")
    yield kafkalog.open(root)
    os.chdir(before)


class Odd:
    """A value of a class of the caller's, which answers everything with an error of its own."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise ZeroDivisionError

    def __str__(self) -> str:
        raise ZeroDivisionError

    def __repr__(self) -> str:
        return "Odd()"


BATCH = kafkalog.scan(simple(3, 0)).batches[0]
RECORD = kafkalog.Record(0, 0, kafkalog.TimestampType.CREATE_TIME, b"k", b"v")
NUMBERS = (-(2**63) - 1, -(2**63), -1, 0, 1, 2, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**400)
SCALARS: tuple[Any, ...] = (
    *NUMBERS, None, True, 0.5, float("nan"), float("inf"), "", "x", "t-0", "a\0b", "\ud800", "/no/such/place", b"",
    b"\xff" * 70, bytearray(b"ab"), memoryview(b"abcd"), memoryview(b"abcdefgh")[::2], array.array("I", [1, 2]),
    np.arange(4, dtype=">i8"), np.int64(3), Odd(), object(), BATCH, RECORD, kafkalog.Codec.ZSTD, NO_PRODUCER,
    kafkalog.Limits(batch_bytes=1), kafkalog.Limits(read_window_bytes=0), Path("/no/such/place"), 3j,
    pa.record_batch({"value": [b"v"]}), pa.record_batch({"value": [1]}), pa.record_batch({"offset": ["x"]}),
    kafkalog.NewRecord(b"v", timestamp=2**70), kafkalog.NewRecord(b"v", headers=[("k", b"v")]),
    kafkalog.NewRecord(b"v", headers=[("k",)]), kafkalog.NewRecord(b"v", headers=5), kafkalog.NewRecord("v", b"k"),  # type: ignore[arg-type,list-item]
)  # fmt: skip
VALUES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.tuples(inner, inner, inner),
        st.dictionaries(st.sampled_from(["x", 1, "t"]), inner, max_size=2), st.lists(inner, max_size=2).map(iter),
    ),
    max_leaves=4,
)  # fmt: skip


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [each for each in inspect.signature(function).parameters.values() if each.name not in ("self", "cls")]


def right(name: str, log_dir: kafkalog.LogDir) -> Any:
    """A value that an argument of this name may have, so that others are examined after it."""
    known = {
        "batch": BATCH, "batches": [BATCH], "records": [RECORD], "buffer": simple(3, 0), "data": b"\0" * 80,
        "log_dir": log_dir, "path": log_dir.path, "header": BATCH.header, "offset": 1, "timestamp": 0, "topic": "t",
        "partition": 0, "key": b"k", "partitions": 3, "count": 2, "magic": 1, "payload": b"", "base_offset": 0,
    }  # fmt: skip
    return known.get(name, 1)


def used(result: Any) -> None:
    """What a call gives is used up: iterators do their work then."""
    if isinstance(result, Iterator):
        for _ in itertools.islice(result, 100):
            pass
    elif hasattr(result, "__enter__") and not isinstance(result, kafkalog.Log):
        with result:
            pass


def refuses_in_order(function: Callable[..., Any], data: st.DataObject, log_dir: kafkalog.LogDir, *first: Any) -> None:
    positional: list[Any] = list(first)
    named: dict[str, Any] = {}
    for each in parameters(function):
        required = each.default is each.empty and each.kind is not each.VAR_POSITIONAL
        way = data.draw(st.sampled_from(["odd", "right" if required else "left out"]), label=each.name)
        if way == "left out":
            continue
        value = data.draw(VALUES, label=each.name) if way == "odd" else right(each.name, log_dir)
        if each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD) or named or not required:
            named[each.name] = value
        else:
            positional.append(value)
    try:
        inspect.signature(function).bind(*positional, **named)
    except TypeError:
        return  # a wrong number of arguments is Python's to refuse
    try:
        used(function(*positional, **named))
    except kafkalog.KafkaLogError:
        pass
    except KeyError:
        if function.__name__ != "__getitem__":  # of a mapping
            raise


# There are more than a hundred of these.
EXAMPLES = examples(60, list(HealthCheck))


@pytest.mark.parametrize("name", sorted(functions()))
@given(data=st.data())
@EXAMPLES
def test_a_function_says_what_is_wrong(name: str, log_dir: kafkalog.LogDir, data: st.DataObject) -> None:
    refuses_in_order(functions()[name], data, log_dir)


SYNC = kafkalog.ProducerConfig(producer_type="sync")


def methods() -> list[tuple[type, str]]:
    found: list[tuple[type, str]] = []
    for kind in CLASSES:
        for name, value in vars(kind).items():
            if name in LEFT or not (name == "__getitem__" or not name.startswith("_")):
                continue
            if isinstance(value, types.FunctionType | classmethod) and parameters(getattr(kind, name)):
                found.append((kind, name))
    return found


@pytest.mark.parametrize(("kind", "name"), methods(), ids=lambda each: getattr(each, "__name__", each))
@given(data=st.data())
@EXAMPLES
def test_a_method_says_what_is_wrong(kind: type, name: str, log_dir: kafkalog.LogDir, data: st.DataObject) -> None:
    with ExitStack() as stack:
        if kind is kafkalog.Log and name != "open":
            found: object = stack.enter_context(kafkalog.Log.open(Path(log_dir.path).with_name("written") / "t-0"))
        elif kind is kafkalog.Producer:
            found = stack.enter_context(kafkalog.Producer(Path(log_dir.path).with_name("produced"), SYNC))
        else:
            partition = log_dir["t", 0]
            of = {
                kafkalog.Partition: partition, kafkalog.LogDir: log_dir, kafkalog.Segment: partition.segments[0],
                Inventory: kafkalog.open_all(log_dir.path), kafkalog.Log: kafkalog.Log,
            }  # fmt: skip
            found = of[kind]
        refuses_in_order(getattr(found, name), data, log_dir)


@pytest.mark.parametrize("kind", [kafkalog.Limits, kafkalog.LogConfig, kafkalog.ProducerConfig])
@given(data=st.data())
@EXAMPLES
def test_settings_say_what_is_wrong(kind: Callable[..., Any], log_dir: kafkalog.LogDir, data: st.DataObject) -> None:
    refuses_in_order(kind, data, log_dir)


WITHOUT_A_CHECK = {
    # results
    "Advice", "BatchHeader", "CompactionPlan", "CopyReport", "EndTransactionMarker", "ExportResult",
    "ExportedPartition", "Finding", "ListedSegment", "LogDir", "Partition", "PartitionName", "Plan", "ProgressState",
    "QuorumPlan", "ReadyBatch", "RecordBatch", "RecoveryResult", "Remains", "RemoteObject", "ReplayPlan",
    "ReplayResult", "Run", "Schema", "SchemaRegistry", "Segment", "Survey", "TopicFacts", "UndeletePlan", "UndoResult",
    # one for each record: the call that gets them examines them
    "NewRecord", "Record",
}  # fmt: skip
NEEDED: dict[str, dict[str, Any]] = {
    "Export": {"format": "parquet"}, "OffsetAndMetadata": {"offset": 0}, "Undelete": {"topic": "t"},
    "QuorumRecovery": {"way": kafkalog.QuorumWay.TOGETHER},
    "RemoteLogs": {"tier": LocalTieredStorage("/no/such/place")}, "RemoteMetadataRebuild": {"partitions": 50},
}  # fmt: skip


def values() -> dict[str, Any]:
    """Every public class of values by name: Structs and dataclasses."""
    public = {name: getattr(module, name) for module in (kafkalog, replay) for name in module.__all__}
    return {
        name: each for name, each in public.items()
        if isinstance(each, type) and (issubclass(each, msgspec.Struct) or is_dataclass(each))
    }  # fmt: skip


def test_a_class_that_callers_make_examines_its_fields() -> None:
    accept_anything = set()
    for name, kind in values().items():
        names = list(inspect.signature(kind).parameters)
        with suppress(kafkalog.UsageError):
            kind(**dict.fromkeys(names, Odd()))
            accept_anything.add(name)
    assert accept_anything == WITHOUT_A_CHECK


REQUESTS = [kind for name, kind in values().items() if name not in WITHOUT_A_CHECK]


@pytest.mark.parametrize("request_type", REQUESTS)
def test_each_field_of_a_request_is_examined(request_type: Callable[..., Any]) -> None:
    needed = NEEDED.get(request_type.__name__, {})
    for name in inspect.signature(request_type).parameters:
        with pytest.raises(kafkalog.UsageError, match=rf"^{name} is Odd\(\) \(Odd\), not (?!Annotated)"):
            request_type(**needed | {name: Odd()})


@pytest.mark.parametrize("request_type", REQUESTS)
def test_a_flag_of_a_request_is_true_or_false(request_type: type[msgspec.Struct]) -> None:
    flags = [each.name for each in msgspec.structs.fields(request_type) if isinstance(each.default, bool)]
    for name in flags:
        for value, text in ((np.arange(4), r"array\(\[0, 1, 2, 3\]\) \(ndarray\)"), ("no", r"'no' \(str\)")):
            with pytest.raises(kafkalog.UsageError, match=f"^{name} is {text}, not bool$"):
                request_type(**NEEDED.get(request_type.__name__, {}), **{name: value})


def _call_without_paths(function: Callable[..., Any], tmp_path: Path) -> None:
    positional, named = [], {}
    for each in parameters(function):
        if each.kind is not each.VAR_POSITIONAL and each.default is each.empty:
            kind = getattr(kafkalog, str(each.annotation).partition(" | ")[0], None)
            value = tmp_path / "new" if kind is None else kind(**NEEDED.get(kind.__name__, {}))
            if each.kind is each.KEYWORD_ONLY:
                named[each.name] = [] if each.name == "brokers" else value
            else:
                positional.append(value)
    function(*positional, **named)


TAKING_PATHS = [
    name for name, function in functions().items()
    if name != "kafkalog.verify_remote"  # which checks a tier, with or without directories
    and any(each.name == "paths" and each.kind is each.VAR_POSITIONAL for each in parameters(function))
]  # fmt: skip


@pytest.mark.parametrize("name", TAKING_PATHS)
def test_a_call_without_paths_is_refused(name: str, tmp_path: Path) -> None:
    sentence = "^neither a log directory nor a remote tier was given$" if "remote" in name else "^no path was given$"
    with pytest.raises(kafkalog.UsageError, match=sentence):
        _call_without_paths(functions()[name], tmp_path)
    assert not any(tmp_path.iterdir())
    assert len(TAKING_PATHS) > 25


COUNTING = [
    name for name, function in functions().items()
    if {"jobs", "threads"} & inspect.signature(function).parameters.keys()
]  # fmt: skip


@pytest.mark.parametrize("name", COUNTING)
def test_no_work_is_done_by_fewer_than_one(name: str) -> None:
    function = functions()[name]
    (count,) = {"jobs", "threads"} & inspect.signature(function).parameters.keys()
    for number in (-1, 0):
        with pytest.raises(kafkalog.UsageError, match=f"^{count} is {number}; the smallest possible value is 1$"):
            function(**{count: number})
    assert len(COUNTING) > 12


def test_a_field_has_the_bounds_of_its_option() -> None:
    low, high = options_of_fields(Replay)["bytes_per_second"].within or (0, 0)
    for number, which, bound in ((0, "smallest", low), (high + 1, "largest", high)):
        sentence = f"^bytes_per_second is {number}; the {which} possible value is {bound}$"
        with pytest.raises(kafkalog.UsageError, match=sentence):
            Replay(bytes_per_second=number)
    assert [Replay(bytes_per_second=number).bytes_per_second for number in (low, high)] == [1, 1 << 40]


def test_letters_are_no_list_of_topics_or_numbers() -> None:
    with pytest.raises(kafkalog.UsageError, match=r"^topics is 'orders' \(str\), not Iterable\[str\]$"):
        kafkalog.Selection.of("orders")
    with pytest.raises(kafkalog.UsageError, match=r"^partitions is \['0'\] \(list\), not Iterable\[int\]$"):
        kafkalog.Selection.of(partitions=["0"])  # type: ignore[list-item]


def test_a_quorum_is_not_recovered_in_a_way_that_does_not_exist() -> None:
    with pytest.raises(kafkalog.UsageError, match=r"^way is 'from_broker' \(str\), not QuorumWay$"):
        kafkalog.QuorumRecovery(way="from_broker")  # type: ignore[arg-type]
    for endpoint in ("h:9093", ("h",), ("h", "9093"), ("h", 9093, "SSL")):
        with pytest.raises(kafkalog.UsageError, match=r"^endpoints is "):
            kafkalog.QuorumRecovery(way=kafkalog.QuorumWay.TOGETHER, endpoints={1: endpoint})  # type: ignore[dict-item]


def test_settings_are_not_negative() -> None:
    for name in ("segment_bytes", "segment_index_bytes", "index_interval_bytes", "producer_id_expiration_ms"):
        with pytest.raises(kafkalog.UsageError, match=f"^{name} is -5; the smallest possible value is 0$"):
            kafkalog.LogSettings(**{name: -5})  # type: ignore[arg-type]


@pytest.mark.parametrize("request_type", REQUESTS)
@given(data=st.data())
@EXAMPLES
def test_a_request_says_what_is_wrong(
    request_type: Callable[..., Any], log_dir: kafkalog.LogDir, data: st.DataObject
) -> None:
    refuses_in_order(request_type, data, log_dir)


@pytest.mark.parametrize("value", [kafkalog.Limits(read_window_bytes=1), kafkalog.Limits(batch_bytes=0)])
def test_the_sizes_of_a_limit_are_used(value: kafkalog.Limits) -> None:
    assert kafkalog.scan(simple(3, 0), limits=value).findings == () or value.batch_bytes == 0


def views(data: bytes) -> dict[str, Any]:
    """The same bytes as different kinds of memory."""
    padded = len(data) - len(data) % 8
    return {
        "bytes": data[:padded], "bytearray": bytearray(data[:padded]), "bytes view": memoryview(data)[:padded],
        "signed bytes": memoryview(data)[:padded].cast("b"), "characters": memoryview(data)[:padded].cast("c"),
        "words": memoryview(data)[:padded].cast("I"), "long words": memoryview(data)[:padded].cast("Q"),
        "rows": memoryview(data)[:padded].cast("B", (padded // 8, 8)),
        "an array": array.array("H", data[:padded]), "of numpy": np.frombuffer(data[:padded], ">i4"),
    }  # fmt: skip


def test_memory_of_any_kind_is_read_as_bytes() -> None:
    data = simple(3, 0) + simple(2, 3) + simple(2, 5) + bytes(8)
    wanted = None
    for name, view in views(data).items():
        result = kafkalog.scan(view)
        found = [bytes(each.data) for each in result.batches], result.valid_bytes, result.stop
        wanted = wanted or found
        assert found == wanted, name
        assert BufferSource(view).size == len(data) - len(data) % 8, name
    assert wanted is not None
    assert len(wanted[0]) == 3
    with pytest.raises(kafkalog.UsageError, match="contiguous"):
        kafkalog.scan(memoryview(data)[::2])
    assert bytes(byte_view(b"ab")) == b"ab"


@pytest.mark.parametrize("offset", [True, np.int64(1), kafkalog.Codec.GZIP])
def test_an_integer_of_any_class_is_written_as_a_number(tmp_path: Path, offset: int) -> None:
    with kafkalog.Log.open(tmp_path / "t-0") as log:
        log.truncate_fully_and_start_at(offset)
        assert type(log.end_offset) is int
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"


def test_an_iterable_among_other_types_is_examined_too(log_dir: kafkalog.LogDir) -> None:
    with pytest.raises(kafkalog.UsageError, match=r"^each of topics is 5 \(int\), not str$"):
        kafkalog.open_streams(log_dir, 1, topics=iter([5]))  # type: ignore[arg-type]
    with pytest.raises(kafkalog.UsageError, match=r"^decoding is 5 \(int\), not ColumnDecoding \| None$"):
        log_dir["t", 0].to_arrow(decoding=5)  # type: ignore[arg-type]


def test_headers_may_be_plain_pairs(tmp_path: Path) -> None:
    pairs = [("k", b"v"), kafkalog.Header("n", None)]
    with kafkalog.Log.open(tmp_path / "t-0") as log:
        log.append([kafkalog.NewRecord(b"v", headers=pairs)])
        for wrong in (("k",), ("k", "v"), (b"k", b"v"), "kv", ("\ud800", b"")):
            with pytest.raises(kafkalog.UsageError, match="header"):
                log.append([kafkalog.NewRecord(b"v", headers=[wrong])])  # type: ignore[list-item]
        assert log.end_offset == 1
    (record,) = kafkalog.open_partition(tmp_path / "t-0").records()
    assert record.headers == (kafkalog.Header("k", b"v"), kafkalog.Header("n", None))


def test_a_log_directory_is_a_mapping(log_dir: kafkalog.LogDir) -> None:
    assert list(log_dir) == [("t", 0)]
    assert len(log_dir) == 1
    assert {key: log_dir[key].path for key in log_dir} == {("t", 0): os.path.join(log_dir.path, "t-0")}
    assert ("t", 0) in log_dir
    assert ("t", 1) not in log_dir
    assert 0 not in log_dir
    assert "t0" not in log_dir
    with pytest.raises(kafkalog.UsageError):
        log_dir[0]  # type: ignore[index]


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(kafkalog.UsageError, match="there is no log directory"):
        kafkalog.Log.open(tmp_path / "dtaa" / "t-0")
    assert list(tmp_path.iterdir()) == []


WITHOUT = """
import sys

package, path = sys.argv[1:]

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import kafkalog
from kafkalog.__main__ import main
told = []
try:
    kafkalog.open_partition(path).to_arrow()
except kafkalog.UsageError as error:
    told.append(str(error))
sys.argv[1:] = ["build", "--into", path + "/../new", path + "/none.jsonl"]
try:
    code = main()
except SystemExit as stop:
    code = stop.code
print(told, code)
"""


def test_a_package_that_is_missing_is_named_with_what_installs_it(log_dir: kafkalog.LogDir) -> None:
    command = [sys.executable, "-c", WITHOUT, "pyarrow", os.path.join(log_dir.path, "t-0")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "to_arrow needs the package pyarrow: install kafkalog[fast]" in done.stdout
    assert done.stdout.rstrip().endswith("64")
    assert "kafkalog: build needs the package pyarrow: install kafkalog[fast]" in done.stderr
