"""Does `explain` name the field that was damaged?  On every recorded case in which it is known which one that was.

Those are the cases that changed bytes of one entry of a log, or of a producer snapshot, and left the file its length:
the sound file tells which field the bytes belong to. Run as a program it prints a line for each case, and how many
were named right, not named at all, or named wrong.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafkalog.codec import scan
from kafkalog.codec.parsing.trace import FieldSpan, read_spans
from kafkalog.codec.parsing.whole import ENTRY, PRODUCER_SNAPSHOT
from kafkalog.recovery.explain import PartRole, explain
from testkit.recorded import fixture_data

CHANGES = ("flip", "splice")
SUFFIXES = (".log", ".snapshot")
FAMILIES = ("bit_flip", "crc_fixed", "not_under_crc", "snapshots", "overflow")


class Named(NamedTuple):
    """A case, the fields whose bytes were changed, and those that `explain` names."""

    case: str
    damaged: tuple[str, ...]
    named: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """right: the first field named is one that was damaged; among: another one named is; unknown: none is named."""
        if not self.named:
            return "unknown"
        if self.named[0] in self.damaged:
            return "right"
        return "among" if set(self.named) & set(self.damaged) else "wrong"


def _leaves(span: FieldSpan, prefix: str = "") -> Iterator[tuple[str, FieldSpan]]:
    for child in span.children:
        path = f"{prefix}{'' if not prefix or child.name.startswith('[') else '.'}{child.name}"
        if child.children and not child.children[0].type.startswith("bit"):
            yield from () if child.is_unpacked else _leaves(child, path)
        else:
            yield path, child


def _fields(sound: bytes, changed: list[int], *, is_log: bool) -> set[str]:
    """Paths of the fields with those bytes; nothing unless they lie in one structure."""
    starts = [(each.position, bytes(each.data)) for each in scan(sound).batches] if is_log else [(0, sound)]
    for position, data in starts:
        if position <= changed[0] and changed[-1] < position + len(data):
            span = read_spans(ENTRY if is_log else PRODUCER_SNAPSHOT, data, position=position)
            return {path for path, each in _leaves(span) if any(each.position <= at < each.end for at in changed)}
    return set()


def _stored_field(path: str) -> str:
    """Bytes of a compressed stream belong to it as a whole: what they hold cannot be told apart."""
    return "compressed" if path.startswith(("compressed", "value.compressed")) else path


def cases() -> Iterator[Named]:
    """Every case whose damaged fields are known."""
    with tempfile.TemporaryDirectory() as directory:
        fixture_data.unpack_bases(Path(directory) / "bases")
        for number, case in enumerate(fixture_data.recovery_cases(FAMILIES)):
            found = _case(case, Path(directory) / "bases", Path(directory) / str(number))
            if found is not None:
                yield found


def _case(case: fixture_data.RecoveryCase, bases: Path, target: Path) -> Named | None:
    facts = case.case
    names = {each["path"] for each in facts["damage"] if each["op"] in CHANGES and each["path"].endswith(SUFFIXES)}
    if len(names) != 1:
        return None
    (name,) = names
    before, base = (
        case.unpack_before(target),
        bases / facts["base"] / ("crash" if facts["form"] == "crash" else "clean"),
    )
    damaged, sound = (before / name).read_bytes(), (base / name).read_bytes()
    changed = [at for at, (a, b) in enumerate(zip(sound, damaged, strict=False)) if a != b]
    if len(sound) != len(damaged) or not changed:
        return None
    fields = {_stored_field(each) for each in _fields(sound, changed, is_log=name.endswith(".log"))}
    fields -= {"crc"} if len(fields) > 1 else set()  # it was made to fit
    if not fields:
        return None
    found = explain(str(before / name))
    if found.is_sound:  # as somebody would ask who was told the place, by a finding or by a consumer that stops there
        found = explain(str(before / name), position=changed[0])
    breaks = [each for part in found.parts if part.role is PartRole.DAMAGED for each in part.breaks]
    return Named(facts["id"], tuple(sorted(fields)), tuple(dict.fromkeys(map(_stored_field, breaks))))


def main() -> int:
    """Print what was found."""
    counts: Counter[str] = Counter()
    for each in cases():
        counts[each.verdict] += 1
        shown = f"{each.case:48} {', '.join(each.damaged):36} {', '.join(each.named) or '-':44} {each.verdict}"
        sys.stdout.write(f"{shown}\n")
    sys.stdout.write(f"{counts.total()} cases: {', '.join(f'{number} {word}' for word, number in counts.items())}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
