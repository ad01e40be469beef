"""Entries that a log directory should not have, one at a time: Kafka's own start and ours leave the same of each.

What a cut-short write leaves beside a file, numbers in names that are written in another way, and directories or
dangling symbolic links where a file is expected, for every name that a broker knows.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.codec.names import parse_java_long
from testkit.kafka import kafka_jars
from testkit.kafka.against_kafka import DECLINED, difference, left_alone
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made import damage, histories
from testkit.made.damage import NOWHERE, ROOT_FILES, SEGMENT_KINDS, STRANGE_DIGITS, Op

LEADER_EPOCHS = "t-0/leader-epoch-checkpoint"
Cases = list[tuple[str, histories.Case]]
HISTORY = histories.History("plain", "entries")
NAMES = [*STRANGE_DIGITS, "-5", "-00000000000000000005", "-0000000000000000005", "+5", "0" * 80 + "5", "\udcff"]


def _in_place_of(tree: damage.Tree, path: str) -> tuple[list[Op], list[Op]]:
    taken: list[Op] = [{"op": "delete", "path": path}] if tree.exists(path) else []
    return [*taken, {"op": "mkdir", "path": path}], [*taken, {"op": "symlink", "path": path, "to": NOWHERE}]


def entries(root: Path) -> dict[str, list[Op]]:
    """By what they are."""
    tree = damage.Tree(root)
    places = [*tree.bases()[:2], tree.bases()[-1], tree.end_offset(), tree.end_offset() + 9]
    files = [tree.file(base, kind) for base in places for kind in SEGMENT_KINDS]
    files += [LEADER_EPOCHS, "t-0/partition.metadata", "meta.properties", *ROOT_FILES]
    found: dict[str, list[Op]] = {}
    for path in files:
        found[f"a file {path}.tmp"] = [{"op": "create", "path": f"{path}.tmp", "text": "left"}]
        for name in (path, f"{path}.tmp", f"{path}.swap", f"{path}.deleted"):
            found[f"a directory {name}"], found[f"a link {name}"] = _in_place_of(tree, name)
    log = tree.file(tree.bases()[0])
    for number in NAMES:
        for kind in (*SEGMENT_KINDS, "log.swap", "index.swap", "log.cleaned", "log.deleted"):
            found[f"an empty {number!a}.{kind}"] = [{"op": "create", "path": f"t-0/{number}.{kind}", "text": ""}]
        found[f"a copy {number!a}.log"] = [{"op": "copy", "path": log, "to": f"t-0/{number}.log"}]
        found[f"a copy t-{number!a}"] = [{"op": "copy", "path": "t-0", "to": f"t-{number}"}]
        found[f"a copy of {number!a} to be deleted"] = [{"op": "copy", "path": "t-0", "to": f"t-{number}.1a-delete"}]
    return found


def cases(form: str, root: Path, kafka: KafkaOracle) -> Cases:
    """Each of them in a directory after a crash, to be scanned from its start, or in one that was closed."""
    scan: list[Op] = [{"op": "create", "path": damage.RECOVERY_POINT, "text": "0\n0\n"}]
    before = scan if form == "crash" else []
    histories.Case(HISTORY, form, ops=tuple(before)).build(root, kafka)
    return [(what, histories.Case(HISTORY, form, ops=(*before, *ops))) for what, ops in entries(root).items()]


def _wrong(
    cases: Cases,
    work: Path,
    kafka: KafkaOracle,
    judged: Callable[[Path, histories.Case], str],
) -> list[str]:
    found = []
    for number, (what, case) in enumerate(cases):
        root = case.build(work / str(number), kafka)
        problem = judged(root, case)
        shutil.rmtree(root)
        if problem:
            found.append(f"{what}: {problem}")
    return found


@pytest.mark.interop
@pytest.mark.parametrize("form", ["crash", "clean"])
def test_mode_kafka_leaves_of_each_what_kafka_leaves(
    form: str, kafka: KafkaOracle, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    declined = []

    def judged(root: Path, case: histories.Case) -> str:
        problem = difference(root, case, kafka)[1]
        declined.extend([case] if problem == DECLINED else [])
        return "" if problem == DECLINED else problem

    found = cases(form, tmp_path / "logs", kafka)
    wrong = _wrong(found, tmp_path, kafka, judged)
    assert not wrong, "\n".join(wrong[:20])
    assert len(declined) < len(found) / 20
    compared("odd entries, one at a time, of which mode kafka leaves what Kafka leaves", len(found) - len(declined))


@pytest.mark.interop
@pytest.mark.parametrize("form", ["crash", "clean"])
def test_kafka_leaves_alone_what_mode_safe_makes_of_each(form: str, kafka: KafkaOracle, tmp_path: Path) -> None:
    found = cases(form, tmp_path / "logs", kafka)
    found = [(what, case) for what, case in found if r"\udcff" not in what]  # in the copy that is checked it is text
    wrong = _wrong(found, tmp_path, kafka, lambda root, case: left_alone(root, case, kafka)[1])
    assert not wrong, "\n".join(wrong[:20])


NUMBERS = """
package numbers;

/** Every character of 16 bits that Long.parseLong takes for a digit, and its value. */
public final class Digits {
    public static void main(String[] arguments) {
        for (int c = 0; c < 65536; c++) {
            try {
                System.out.println(c + " " + Long.parseLong("1" + (char) c));
            } catch (NumberFormatException e) {
                // not a digit
            }
        }
    }
}
"""


@pytest.mark.usefixtures("kafka")  # for its reason, where there is no Java
def test_every_character_is_the_digit_that_it_is_to_java() -> None:
    classes = kafka_jars.compiled("4.1.0", "numbers", {"numbers/Digits.java": NUMBERS})
    command = kafka_jars.java("4.1.0", "numbers.Digits", classes=(classes,))
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    theirs = {int(code): int(value) for code, value in (line.split() for line in printed.splitlines())}
    ours = {code: value for code in range(1 << 16) if (value := parse_java_long("1" + chr(code))) is not None}
    assert len(theirs) > 300
    assert ours == theirs
