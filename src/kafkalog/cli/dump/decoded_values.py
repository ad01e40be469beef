"""`--values auto`: put decoded keys and values into a record's JSON line, and count the values that cannot be
decoded.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kafkalog.cli.dump.request import Dump
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.codec.model import Record
from kafkalog.log import Partition
from kafkalog.values.decoding import DecodedValue, ValueDecoder
from kafkalog.values.masking import masked
from kafkalog.values.payloads import UndecodableError
from kafkalog.values.sources import find_schemas, read_schemas

__all__ = ["ShownValues"]


_MOST_PROBLEMS = 50
"""that are told apart in one partition"""
_OTHERS = "for yet another reason, which its line says"


class _Problem(Struct):
    first_offset: int
    records: int = 0


class ShownValues(Struct):
    """Puts decoded keys and values into JSON lines, and counts the keys and values that cannot be decoded."""

    decoder: ValueDecoder
    masks: frozenset[str]
    _problems: dict[str, _Problem] = {}

    @classmethod
    def of(cls, request: Dump, paths: Sequence[str], findings: list[Finding]) -> ShownValues:
        """Return an instance with the schemas that the options name, or else with the schemas in or beside `paths`.
        Findings about the schema registry are added to `findings`.
        """
        registry = read_schemas(*request.schemas) if request.schemas else find_schemas(paths, request.replica)
        findings += registry.findings
        return cls(ValueDecoder(registry), frozenset(request.masks))

    def put(self, target: dict[str, object], record: Record, topic: str | None) -> None:
        """Decode key and value of a record and put them into its JSON object `target`, which is changed. They become
        the fields `key` and `value`, each with a `_schema` field that describes its schema (or is None).

        A value that cannot be decoded becomes None, and a `_b64` field has its bytes, unless masks are set. The reasons
        become the text field `finding`, and each is counted for `findings`. After `_MOST_PROBLEMS` different reasons,
        all further ones are counted together.
        """
        key, value = self.decoder.key(record, topic), self.decoder.value(record, topic)
        problems = [each for part, decoded in (("key", key), ("value", value))
                    if (each := self._put(target, part, decoded)) is not None]  # fmt: skip
        for problem in problems:
            known = problem in self._problems or len(self._problems) < _MOST_PROBLEMS
            self._problems.setdefault(problem if known else _OTHERS, _Problem(record.offset)).records += 1
        if problems:
            target["finding"] = "; ".join(problems)

    def _put(self, target: dict[str, object], part: str, decoded: DecodedValue) -> str | None:
        problem, shown = decoded.problem, None
        if problem is None:
            try:
                shown = masked(decoded.value, self.masks)
            except UndecodableError as error:
                problem = f"{part}: {error}"
        target[part] = shown
        target[f"{part}_schema"] = decoded.schema_words
        if decoded.data is not None and not self.masks:
            target[f"{part}_b64"] = b2a_base64(decoded.data, newline=False).decode("ascii")
        return problem

    def findings(self, partition: Partition) -> Iterator[Finding]:
        """Yield one `VALUE_UNDECODABLE` finding per problem since the last call, with the number of records and the
        first offset; the counts start again at zero. Nothing happens before the iterator is used.
        """
        problems, self._problems = self._problems, {}
        for detail, problem in problems.items():
            told = f"{counted(problem.records, 'record')} not decoded: {detail}"
            yield Finding.of(
                FindingCode.VALUE_UNDECODABLE, None, problem.first_offset, told, partition.path
            )
