"""docs/json: the schemas of what commands print with --json, made from the types, and the page that is made from them.

Run with `--write` it brings both up to date; the tests only compare.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, get_args

import msgspec
from jsonschema import Draft202012Validator
from msgspec.inspect import type_info
from referencing import Registry, Resource

from kafkalog.cli.output import ErrorLine

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "json"
PAGE = FOLDER / "README.md"
SUFFIX = ".schema.json"
BLOCK = re.compile(r"(<!-- begin fields -->\n).*?(<!-- end -->)", re.DOTALL)

LINES = {
    "build": "kafkalog.log.writing.building:Built",
    "compact": "kafkalog.cli.shapes.compact_lines:CompactLine",
    "compare": "kafkalog.cli.shapes.compare_lines:Line",
    "dump": "kafkalog.cli.shapes.dump_lines:Line",
    "elections": "kafkalog.cli.shapes.elections_lines:Line",
    "explain": "kafkalog.cli.looking.explain:Line",
    "export": "kafkalog.cli.shapes.export_lines:Line",
    "find": "kafkalog.cli.records.find:Line",
    "groups": "kafkalog.cluster.groups.old_group_lines:Line",
    "index-rebuild": "kafkalog.cli.shapes.plan_lines:ResultLine",
    "index-verify": "kafkalog.cli.repairing.index:IndexVerifyLine",
    "ls": "kafkalog.cli.shapes.ls_lines:LsLine",
    "merge": "kafkalog.cli.shapes.merge_lines:Line",
    "metadata": "kafkalog.cli.shapes.metadata_lines:Line",
    "offsets": "kafkalog.cli.shapes.offsets_lines:Line",
    "plan": "kafkalog.cli.shapes.plan_lines:PlanLine",
    "quorum-recover": "kafkalog.cli.shapes.quorum_recover_lines:QuorumRecoverLine",
    "quorum-show": "kafkalog.cli.shapes.quorum_lines:Line",
    "recover": "kafkalog.cli.shapes.plan_lines:ResultLine",
    "remote": "kafkalog.cli.shapes.remote_lines:Line",
    "replay": "kafkalog.cli.shapes.replay_lines:Line",
    "retention": "kafkalog.cli.looking.retention:RetentionLine",
    "runs": "kafkalog.cli.shapes.runs_lines:Line",
    "schemas": "kafkalog.cli.clusters.schemas:Line",
    "serve": "kafkalog.cli.records.serve:ServeLine",
    "staging": "kafkalog.cli.repairing.staging:StagingLine",
    "top": "kafkalog.cli.records.top:TopLine",
    "transactions": "kafkalog.cluster.transactions.transaction_lines:Line",
    "triage": "kafkalog.cli.shapes.triage_lines:Line",
    "undelete": "kafkalog.cli.shapes.undelete_lines:Line",
    "undo": "kafkalog.cli.repairing.undo:UndoLine",
    "verify": "kafkalog.recovery.checks.report:DirectoryJson",
    "zk": "kafkalog.cluster.zookeeper.node_lines:ZkLine",
}
"""Schema, and the type of a line: a Struct, or the name of a union of several, with its docstring."""
TITLES = {"plan": "kafkalog plan, kafkalog recover --dry-run"}
NAMES = {"MergedRange": "range"}
"""Names of results among the definitions of a schema that are not those of their classes."""

Schema = dict[str, Any]


@cache
def docstrings(module: str) -> dict[str, str]:
    """Docstrings of a module's classes, of their fields as `Class.field`, and of its constants."""
    found: dict[str, str] = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.ClassDef):
                found[node.name] = ast.get_docstring(node) or ""
                collect(node.body, f"{node.name}.")
            text = after.value if isinstance(after, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                targets = node.targets if isinstance(node, ast.Assign) else []
                targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
                for name in (each.id for each in targets if isinstance(each, ast.Name)):
                    found[prefix + name] = text.value

    collect(ast.parse(inspect.getsource(importlib.import_module(module))).body, "")
    return {name: " ".join(text.split()) for name, text in found.items()}


def description_of(kind: type, field: str) -> str:
    """Docstring below a field, in its class or in the one that it comes from."""
    texts = (docstrings(each.__module__).get(f"{each.__name__}.{field}") for each in kind.__mro__[:-2])
    return next(filter(None, texts), "")


def name_of(kind: type) -> str:
    """Name of a Struct among the definitions of a schema: `FindingJson` is `finding`."""
    name = NAMES.get(kind.__name__) or re.sub("(Json|Line)$", "", kind.__name__)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


_PLAIN = {
    msgspec.inspect.NoneType: "null",
    msgspec.inspect.BoolType: "boolean",
    msgspec.inspect.IntType: "integer",
    msgspec.inspect.FloatType: "number",
    msgspec.inspect.StrType: "string",
}


class _Writer:
    """Schema of one command; Structs inside of a line are definitions, which it remembers."""

    def __init__(self) -> None:
        self.parts: dict[str, type] = {}

    def of_type(self, kind: msgspec.inspect.Type) -> Schema:
        inspected = msgspec.inspect
        if type(kind) in _PLAIN:
            return {"type": _PLAIN[type(kind)]}
        match kind:
            case inspected.AnyType():
                return {}
            case inspected.Metadata():
                return self.of_type(kind.type)
            case inspected.EnumType():
                return {"enum": [each.value for each in kind.cls]}
            case inspected.LiteralType():
                return {"const": kind.values[0]} if len(kind.values) == 1 else {"enum": list(kind.values)}
            case inspected.ListType() | inspected.VarTupleType() | inspected.CollectionType():
                items = self.of_type(kind.item_type)
                return {"type": "array", "items": items} if items else {"type": "array"}
            case inspected.TupleType():
                several = [self.of_type(each) for each in kind.item_types]
                return {"type": "array", "prefixItems": several, "minItems": len(several), "maxItems": len(several)}
            case inspected.DictType():
                least = {} if kind.min_length is None else {"minProperties": kind.min_length}
                return {"type": "object", **least, "additionalProperties": self.of_type(kind.value_type) or True}
            case inspected.UnionType():
                return _either([self.of_type(each) for each in kind.types])
            case inspected.StructType():
                name = name_of(kind.cls)
                assert self.parts.setdefault(name, kind.cls) is kind.cls, f"two types are called {name}"
                return {"$ref": f"#/$defs/{name}"}
        raise TypeError(f"{kind} is not of JSON")

    def of_form(self, kind: Any) -> Schema:
        """A line that is an object, or a map with a description of its own."""
        if isinstance(kind, type):
            return self.of_struct(kind)
        return {**self.of_type(type_info(kind)), "description": kind.__metadata__[0].description}

    def of_struct(self, kind: type) -> Schema:
        """An object; what has a default in a Struct that omits defaults is absent instead."""
        info = type_info(kind)
        assert isinstance(info, msgspec.inspect.StructType)
        omits = kind.__struct_config__.omit_defaults  # type: ignore[attr-defined]
        properties: Schema = {}
        required = []
        if info.tag is not None:
            assert info.tag_field is not None
            properties[info.tag_field] = {"const": info.tag, "description": "which form this is"}
            required.append(info.tag_field)
        annotated = {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
        for field in info.fields:
            types = get_args(annotated[field.encode_name])
            is_optional = msgspec.UnsetType in types or (omits and not field.required)
            if annotated[field.encode_name] is msgspec.UnsetType:
                continue  # a class above has it, and this one never
            schema = self.of_type(field.type)
            if is_optional and omits and isinstance(schema.get("type"), list):
                schema["type"] = next(each for each in schema["type"] if each != "null")
            elif is_optional and omits and "anyOf" in schema:
                schema = schema["anyOf"][0]
            properties[field.encode_name] = schema | {"description": description_of(kind, field.name)}
            required += [] if is_optional else [field.encode_name]
        text = docstrings(kind.__module__)[kind.__name__]
        shape = {"type": "object", "description": text, "properties": properties, "required": required}
        return {**shape, "additionalProperties": getattr(kind, "is_open", False)}


def _either(several: list[Schema]) -> Schema:
    """One of several, without what is there twice."""
    if not any(each.keys() & {"enum", "$ref", "anyOf", "const"} for each in several):
        merged: Schema = {}
        for each in several:
            merged |= each
        return {**merged, "type": [each["type"] for each in several]}
    if len(several) == 2 and several[1] == {"type": "null"} and "enum" in several[0]:
        return {"enum": [*several[0]["enum"], None]}
    return {"anyOf": several}


def _type_at(place: str) -> tuple[Any, str]:
    """The type of a line, and what it is."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name), docstrings(module)[name]


@cache
def made() -> dict[str, Schema]:
    """Schemas from the types, by name."""
    written: dict[str, tuple[Schema, dict[str, type]]] = {}
    for name, place in LINES.items():
        kind, text = _type_at(place)
        writer = _Writer()
        forms = [writer.of_form(each) for each in get_args(kind) or [kind]]
        title = TITLES.get(name, f"kafkalog {name.replace('-', ' ')}")
        body = {"oneOf": forms} if len(forms) > 1 else forms[0]
        written[name] = {"title": title, **body, "description": text}, _closed(writer)
    uses = [kind for _, parts in written.values() for kind in parts.values()]
    common: dict[str, type] = {"error": ErrorLine}
    schemas_: dict[str, Schema] = {}
    for name, (body, parts) in written.items():
        common |= {each: kind for each, kind in parts.items() if uses.count(kind) > 1}
        own = {each: kind for each, kind in parts.items() if uses.count(kind) == 1}
        schemas_[name] = _whole(name, body, own, common)
    text = "Objects that the lines of several commands hold."
    schemas_["common"] = _whole("common", {"title": "Shared parts", "description": text}, common, {})
    return dict(sorted(schemas_.items()))


def _closed(writer: _Writer) -> dict[str, type]:
    """All Structs inside of a line, those inside of others too."""
    done: set[str] = set()
    while left := [name for name in writer.parts if name not in done]:
        for name in left:
            writer.of_struct(writer.parts[name])
            done.add(name)
    return writer.parts


def _whole(name: str, body: Schema, parts: dict[str, type], common: dict[str, type]) -> Schema:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{name}{SUFFIX}"}
    defined = {each: _Writer().of_struct(kind) for each, kind in parts.items()}
    whole = {**head, **body, **({"$defs": defined} if defined else {})}
    made_: Schema = _elsewhere(whole, set(common) - set(parts))
    return made_


def _elsewhere(schema: Any, common: set[str]) -> Any:
    """The same with the definitions that several commands share taken from `common`."""
    if isinstance(schema, list):
        return [_elsewhere(each, common) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made_: Schema = {key: _elsewhere(value, common) for key, value in schema.items()}
    if str(made_.get("$ref", "")).removeprefix("#/$defs/") in common:
        made_["$ref"] = f"common{SUFFIX}{made_['$ref']}"
    return made_


def text_of(schema: Schema) -> str:
    """A schema as its file has it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


@cache
def schemas() -> dict[str, Schema]:
    """By name, as `ls`; `common` holds what several share."""
    return {path.name.removesuffix(SUFFIX): json.loads(path.read_text()) for path in sorted(FOLDER.glob(f"*{SUFFIX}"))}


@cache
def validator(name: str) -> Draft202012Validator:
    """For one line of a command."""
    registry: Registry[Any] = Registry().with_resources(
        (f"{each}{SUFFIX}", Resource.from_contents(schema)) for each, schema in schemas().items()
    )
    return Draft202012Validator(schemas()[name], registry=registry)


@cache
def _of_error() -> Draft202012Validator:
    return Draft202012Validator(schemas()["common"]["$defs"]["error"])


def problems(name: str, line: Any) -> list[str]:
    """What is wrong with a line; of several forms, what keeps it from the one that it is most like.

    An error before any line is the same object for every command.
    """
    found = []
    of_error = isinstance(line, dict) and "error" in line and "exit_code" in line
    for error in (_of_error() if of_error else validator(name)).iter_errors(line):
        forms: dict[Any, list[Any]] = {}
        for each in error.context or ():
            forms.setdefault(each.schema_path[0], []).append(each)
        nearest = min(forms.values(), key=len) if forms else [error]
        found += [f"{name}: {each.json_path}: {each.message[-300:]}" for each in nearest]
    return found


@lru_cache(maxsize=20_000)
def problems_of_line(name: str, line: str) -> list[str]:
    """What is wrong with a line as it was printed; many runs print the same ones."""
    return problems(name, json.loads(line))


def objects(schema: Any) -> Iterator[Schema]:
    """Every object with declared properties in a schema."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for each in schema.values():
            yield from objects(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from objects(each)


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return f"{schema['$ref'].rpartition('/')[2]}"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join("null" if each is None else f"`{each}`" for each in schema["enum"])
    given = schema.get("type", "any")
    names = [given] if isinstance(given, str) else list(given)
    if "array" in names and "items" in schema:
        names[names.index("array")] = f"list of {_type(schema['items'])}"
    if "object" in names and isinstance(schema.get("additionalProperties"), dict):
        names[names.index("object")] = f"map to {_type(schema['additionalProperties'])}"
    return " or ".join(names)


def _fields(schema: Schema) -> Iterator[str]:
    if not schema.get("properties"):
        return
    yield "| field | type | |"
    yield "|---|---|---|"
    for name, each in schema["properties"].items():
        yield f"| `{name}` | {_type(each)} | {each['description'].replace('|', chr(92) + '|')} |"
    yield ""


def _described(schema: Schema) -> Iterator[str]:
    """An object, or each of its forms."""
    for each in schema.get("oneOf", [schema] if "properties" in schema else []):
        if "oneOf" in schema:
            yield each["description"]
            yield ""
        yield from _fields(each)


def page() -> str:
    """The whole page as it should be."""
    lines: list[str] = []
    for name, schema in schemas().items():
        lines += [f"## {schema['title']}", "", f"{schema['description']} ([schema]({name}{SUFFIX}))", ""]
        lines += _described(schema)
        for part, each in schema.get("$defs", {}).items():
            lines += [f"### {part}", ""]
            if "oneOf" not in each:
                lines += [each["description"], ""] if "description" in each else []
            lines += _described(each)
    body = "\n".join(lines)
    return BLOCK.sub(lambda match: f"{match[1]}{body}{match[2]}", PAGE.read_text())


if __name__ == "__main__" and "--write" in sys.argv:
    for file, schema_ in made().items():
        (FOLDER / f"{file}{SUFFIX}").write_text(text_of(schema_))
    schemas.cache_clear()
    PAGE.write_text(page())
