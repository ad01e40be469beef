"""Public names: one table; whatever a public signature mentions is among them, and they hide nothing."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
import types
import typing
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import pytest

import kafkalog
import kafkalog.types
import lazy_names
from kafkalog.codec.common import errors as errors_module
from kafkalog.codec.common.arguments import plain_type
from testkit.judging.modules import module
from testkit.running.programs import dev

ROOT = Path(__file__).resolve().parents[2]
EXPORTED: list[str] = vars(kafkalog)["__all__"]
TYPES: list[str] = vars(kafkalog.types)["__all__"]
PUBLIC = sorted({*EXPORTED, *TYPES, "open"} - {"__version__"})
MOST_NAMES = 170
"""At the top; what calls return is in `kafkalog.types`."""
FUNCTIONS = [name for name in EXPORTED if inspect.isfunction(getattr(kafkalog, name))]
ONLY_NAMED = {
    "BatchColumns", "BatchFilter", "Carrier", "Cells", "Content", "Damage", "Directory", "Examined", "ExitCode",
    "FileFacts", "FirstBatches", "FramedRecord", "HeaderColumn", "HeaderTables", "Lineage", "MetadataEvent",
    "MetadataSnapshot", "Planned", "RecoveryRequest", "RunFacts", "Scratch", "StartedOver", "Term", "Tree", "WaySpec",
}  # fmt: skip
"""Results keep these for other functions of the library: a caller can name them, and what they hold may change."""
HANDED_ON = {
    "Survey",
    "ReportFacts",
    "ReportVerdict",
    "QuorumLog",
    "ReplicaLog",
    "RecoveryWay",
    "NewMetadata",
    "RecoveryAction",
    "ModeSpec",
    "BatchRun",
    "CoordinatorLogs",
    "MetadataImage",
    "MetadataLog",
    "MetadataState",
}
"""Results keep these for other functions of the library: their own values are of any kind."""
MADE_HERE = {"BatchReader", "BatchRun", "ConsumerStream", "RecordReader"}
"""A caller is given these, and never makes one."""
SPELLED_OUT = {
    "Bytes", "Future", "Int64s", "Key", "MessageContent", "OfBatch", "Owners", "Paths", "Sliced", "Table", "Tags",
    "TakeRun", "TopicIdPartition",
}  # fmt: skip
"""Names of a module for types of one line, which no caller has to write; `Future` is Python's."""
DOORS = ["kafkalog", "kafkalog.types", "kafkalog.codec", "kafkalog.log", "kafkalog.recovery"]


def public(name: str) -> Any:
    """The value of a public name."""
    return getattr(kafkalog.types if name in TYPES else kafkalog, name)


def test_the_top_level_is_small() -> None:
    assert len(EXPORTED) <= MOST_NAMES
    assert set(EXPORTED) & set(TYPES) == set()


@cache
def only_for_types(module: str) -> dict[str, Any]:
    """What a module imports under TYPE_CHECKING alone."""
    names = dict(vars(sys.modules[module]))
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    guarded = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    for node in guarded:
        exec(compile(ast.Module(node.body, []), module, "exec"), names)
    return names


def classes_in(annotation: object) -> Iterator[type]:
    """The project's classes that an annotation mentions, at any depth."""
    parts = annotation if isinstance(annotation, list) else typing.get_args(annotation)
    for part in parts:
        yield from classes_in(part)
    if inspect.isclass(annotation) and annotation.__module__.startswith("kafkalog."):
        yield annotation


def signatures(name: str) -> Iterator[Any]:
    """The public functions behind a name, and a class of fields itself."""
    value = public(name)
    if not inspect.isclass(value):
        yield from [inspect.unwrap(value)] if inspect.isfunction(value) else []
        return
    if name in ONLY_NAMED:
        return
    if dataclasses.is_dataclass(value) or hasattr(value, "__struct_fields__") or hasattr(value, "_fields"):
        yield value
    for member, function in vars(value).items():
        if member.startswith("_") and member not in ("__init__", "__iter__", "__getitem__"):
            continue
        if member == "__init__" and name in MADE_HERE:
            continue
        if isinstance(function, classmethod | staticmethod):
            function = function.__func__
        if isinstance(function, property):
            function = function.fget
        if isinstance(function, cached_property):
            function = function.func
        if inspect.isfunction(function):
            yield inspect.unwrap(function)


def hints(subject: Any) -> dict[str, Any]:
    """Annotations as objects; fields that begin with an underscore are nobody's business."""
    found = typing.get_type_hints(subject, localns=only_for_types(subject.__module__))
    return {name: hint for name, hint in found.items() if not name.startswith("_")}


def test_every_type_in_a_public_signature_can_be_imported() -> None:
    known = {id(public(name)) for name in PUBLIC}
    seen = 0
    missing = set()
    for name in PUBLIC:
        for subject in signatures(name):
            for hint in hints(subject).values():
                for each in classes_in(hint):
                    seen += 1
                    if id(each) not in known:
                        missing.add(f"{each.__module__}.{each.__name__}, of {name} ({subject.__qualname__})")
    assert sorted(missing) == []
    assert seen > 300


def own_names(subject: Any) -> Iterator[str]:
    """The names in the annotations of a function or class that are not Python's own, as they are written there."""
    known = only_for_types(subject.__module__)
    told = {name: text for name, text in subject.__annotations__.items() if not name.startswith("_")}
    for text in map(str, told.values()):
        for name in re.findall(r"(?<![\w.])[A-Z]\w+", plain_type(text)):
            if name in known and not hasattr(typing, name) and not isinstance(known[name], TypeVar):
                yield name


def test_every_name_in_a_public_signature_can_be_imported_as_it_is_written_there() -> None:
    missing = {
        f"{name}, of {public_name}"
        for public_name in PUBLIC
        for subject in signatures(public_name)
        for name in own_names(subject)
        if name not in (*PUBLIC, *SPELLED_OUT)
    }
    assert missing == set()


def test_every_error_that_a_docstring_names_can_be_imported() -> None:
    errors = {name for name in errors_module.__all__ if name.endswith(("Error", "Name"))}
    subjects = [each for name in PUBLIC for each in (public(name), *signatures(name))]
    named = {name for each in subjects for name in re.findall(r"`(\w+)`", inspect.getdoc(each) or "")}
    assert {"UnknownName", "ReplicaError", "StorageError"} <= named & errors
    assert named & errors <= set(PUBLIC)


def test_a_name_is_that_of_its_class() -> None:
    """What a traceback or a repr calls a class is how it is imported."""
    other = {name for name in PUBLIC if inspect.isclass(value := public(name)) and value.__name__ != name}
    assert other == set()


def test_star_hides_no_builtin_and_no_module() -> None:
    names: dict[str, Any] = {}
    exec("from kafkalog import *", names)
    given = set(names) - {"__builtins__"}
    assert set(EXPORTED) == given
    modules = {module.name for module in pkgutil.iter_modules(kafkalog.__path__)}
    assert given & (set(dir(builtins)) | set(sys.stdlib_module_names) | modules) == set()
    assert [name for name in given if isinstance(names[name], types.ModuleType)] == []
    assert "open" not in given
    assert kafkalog.open.__name__ == "open_log_dir"


@pytest.mark.parametrize("door", DOORS)
def test_each_line_of_a_table_gives_a_name(door: str) -> None:
    module = importlib.import_module(door)
    text = (Path(module.__path__[0]) / "__init__.pyi").read_text(encoding="utf-8")
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    named = [(node.module, each.name, each.asname) for node in imported for each in node.names]
    assert len(named) > 10
    assert len({public for _, _, public in named}) == len(named)
    for home, name, public in named:
        assert public is not None
        assert home is not None
        value = getattr(module, public)
        known = inspect.unwrap(value) if inspect.isfunction(value) else value
        assert known is getattr(importlib.import_module(home), name)
    assert {public for _, _, public in named} <= set(dir(module))


@pytest.mark.parametrize("stub", lazy_names.stubs(), ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_the_table_in_a_package_is_that_of_its_stub(stub: Path) -> None:
    assert stub.with_suffix(".py").read_text(encoding="utf-8") == lazy_names.module(stub)


def public_homes() -> set[str]:
    """Where each public name is at home, with the name."""
    stubs = [ROOT / "src" / "kafkalog" / "__init__.pyi", ROOT / "src" / "kafkalog" / "types" / "__init__.pyi"]
    text = "".join(stub.read_text(encoding="utf-8") for stub in stubs)
    return {f"{home}.{name}" for home, name in re.findall(r"^from (\S+) import (\w+) as", text, re.MULTILINE)}


def test_the_page_describes_each_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    described = re.findall(r"^::: (kafkalog\.[\w.]+)$", page, re.MULTILINE)
    assert len(described) == len(set(described))
    codec = {"kafkalog.codec.parsing.door." + name for name in ("build", "LAYOUTS", "parse", "with_timestamps")}
    assert set(described) - codec == public_homes()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_names_each_parameter(name: str) -> None:
    function = getattr(kafkalog, name)
    text = inspect.getdoc(function) or ""
    lacking = [each for each in inspect.signature(function).parameters if not re.search(rf"`{each}`", text)]
    assert lacking == []


MOST_PARAMETERS = 9
"""Of a function or method; a call that needs more takes a request, and constructors of requests have a field each."""
VALUES = {
    "PayloadDecoder.decode", "Plan.as_dict", "RecoveryResult.as_dict", "ValueDecoder.avro_references",
    "VerifyReport.as_dicts",
    "Producer.__init__", "Producer.send",
    "RecoveryRefused.__init__", "RemoteLogSource.beginnings",
}  # fmt: skip
"""Any JSON value; keys and values as a caller's encoders take them; reports and plans, which these are below of."""


MADE_OF_FIELDS = {
    f"{name}.__init__" for name in PUBLIC if dataclasses.is_dataclass(public(name)) and name not in MADE_HERE
}


def test_a_public_signature_is_short_and_says_which_types_it_takes_and_returns() -> None:
    vague, long, open_ended = set(), [], []
    for function in {each for name in PUBLIC if name not in HANDED_ON
                     for each in signatures(name) if inspect.isfunction(each)}:  # fmt: skip
        if function.__name__ == "_no_init_or_replace_init" or function.__qualname__ in MADE_OF_FIELDS:
            continue
        name, given = function.__qualname__, inspect.signature(function).parameters.values()
        open_ended += [name for each in given if each.kind is each.VAR_KEYWORD]
        if len([each for each in given if each.name not in ("self", "cls")]) > MOST_PARAMETERS:
            long += [] if function.__name__ == "__init__" else [name]
        vague |= {name for hint in hints(function).values() if mentions(hint, (Any, object))}
    assert (vague, long, open_ended) == (VALUES, [], [])


def test_a_job_is_asked_for_by_a_request_and_then_paths() -> None:
    """`compact(Compaction(), "a", "b", jobs=2)`: one request, any number of paths, and all else by its name."""
    kinds = inspect.Parameter
    asked = {
        name: [(each.name, each.kind) for each in inspect.signature(getattr(kafkalog, name)).parameters.values()]
        for name in FUNCTIONS
    }
    jobs = {name: given for name, given in asked.items() if given[0][0] == "request"}
    assert len(jobs) >= 15
    for name, (request, paths, *others) in jobs.items():
        assert request[1] is kinds.POSITIONAL_OR_KEYWORD
        is_of_tier = name == "rebuild_remote_metadata"  # which reads a tier, and no directory
        wanted = ("tier", kinds.POSITIONAL_OR_KEYWORD) if is_of_tier else ("paths", kinds.VAR_POSITIONAL)
        assert (name, paths) == (name, wanted)
        assert {kind for _, kind in others} <= {kinds.KEYWORD_ONLY}, name


MOST_LONG_FUNCTIONS = 8
"""With ten parameters or more: of compiled code, and where Kafka's own builder and producer have as many."""


def test_few_functions_of_the_program_have_ten_parameters() -> None:
    paths = [
        path
        for room in (*dev.ROOMS, "src")
        for path in (ROOT / room).rglob("*.py")
        if not any(part.is_symlink() for part in path.parents if part != ROOT)
    ]
    functions = [(path.name, *each) for path in paths for each in module(path).parameters]
    assert len(functions) > 5000
    assert len([each for each in functions if each[2] >= 10]) <= MOST_LONG_FUNCTIONS


def mentions(hint: object, types: tuple[object, ...]) -> bool:
    """Whether an annotation is, or contains, one of the types."""
    parts = hint if isinstance(hint, list) else typing.get_args(hint)
    return any(hint is each for each in types) or any(mentions(part, types) for part in parts)
