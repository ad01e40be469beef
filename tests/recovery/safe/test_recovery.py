"""Mode safe on every recorded case: Kafka opens the result and changes nothing, no sound batch is lost, undo restores.

Expected bytes are Kafka's own where its result was sound and stable.  That Kafka leaves the result alone is asked of
the model here and of Kafka itself where a JDK and Maven are (`java`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog import RecoveryRefused
from kafkalog.codec.common.findings import FindingCode, Severity
from kafkalog.codec.names import LEADER_EPOCH_CHECKPOINT as EPOCHS
from kafkalog.codec.plain.scanner import scan
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.recovery import Recovery, Undo, plan, recover, undo
from kafkalog.recovery.broker.manager import load_log_directory
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.facts.survey import survey
from kafkalog.words.advice import in_options
from testkit.judging.trees import contents, first_difference, stamps
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.recorded.fixture_data import RECOVERY, RecoveryCase, recovery_case, recovery_cases, recovery_families
from testkit.recorded.recovery_settings import given
from testkit.running.shares import EACH

INDEX: dict[str, dict[str, Any]] = {
    entry["id"]: entry for entry in json.loads((RECOVERY / "index.json").read_text())["cases"]
}

SETTING_AT_FAULT = {
    case.id: "the indexes do not fit into segment.index.bytes, which recovery cannot change"
    for case in recovery_cases(["config"])
    if case.name.startswith("index-max-bytes-")
}
TOPIC_ID_UNKNOWN = {
    f"partition_metadata/{name}": "the only partition of its topic, so nothing knows the topic id"
    for name in ("empty", "nul", "version-only", "zero-uuid")
}
REFUSED = SETTING_AT_FAULT | TOPIC_ID_UNKNOWN
FAMILIES = [name for name in recovery_families() if name != "bases"]


def partition_files(root: Path) -> dict[str, tuple[int, str]]:
    """What Kafka's acceptance is about: everything below the partition directories."""
    return {path: held for path, held in contents(root).items() if "/" in path and not path.endswith(".deleted")}


def model_changes(root: Path, case: RecoveryCase) -> str:
    """What the model of the broker would do to a directory."""
    settings = LogSettings.from_names(given(case)["config"])
    with survey(str(root)) as found:
        tree = found.tree()
        result = load_log_directory(tree, settings=lambda topic: settings, now_ms=given(case)["at"])
        if result.outcome != "loaded":
            return f"{result.outcome}: {result.exception}: {result.message}"
        before = {path: found.tree().read(path) for path in found.files if "/" in path}
        after = {path: tree.read(path) for path in tree.files if "/" in path}
    return first_difference(dict(after), dict(before))[:300]


def valid_batches_before_damage(root: Path) -> dict[str, int]:
    """Log file -> bytes of valid batches up to the first damage, in the order of the segments."""
    found: dict[str, int] = {}
    for log in sorted(path for path in root.glob("*-*/*.log") if path.is_file()):
        result = scan(log.read_bytes())
        found[str(log.relative_to(root))] = result.valid_bytes
    return found


def is_kafkas_result_good(case: RecoveryCase) -> bool:
    entry = INDEX[case.id]
    return (entry["outcome"], entry["second_pass"], entry["assessment"]) == ("loaded", "same", {})


def stays(case: RecoveryCase, root: Path) -> bool:
    """A broker stopped it in order, `verify` finds nothing (but a begin or an end that checkpoints or epochs
    contradict, which a start believes), and Kafka itself started on it: nothing is to be done.
    """
    serious = {finding.code for finding in verify(root).findings if finding.severity is not Severity.INFO}
    is_sound = serious <= {FindingCode.LOG_END_BEYOND_CHECKPOINT, FindingCode.OFFSETS_BELOW_LOG_START}
    return (root / ".kafka_cleanshutdown").is_file() and case.outcome == "loaded" and is_sound


def taken_by_kafka(case: RecoveryCase, root: Path) -> str:
    """A log of which Kafka's own start on the untouched directory left less."""
    after = case.expected_after()
    for path, (size, digest) in contents(root).items():
        if path.endswith(".log") and after.get(path) != (size, digest):
            return f"Kafka did not keep {path}"
    return ""


def as_kafka_leaves(case: RecoveryCase, target: Path) -> Path:
    """The directory with Kafka's own bytes in its partitions."""
    root = case.unpack_before(target)
    recover(Recovery(mode="kafka", **given(case)), root)
    want = {path: held for path, held in case.expected_after().items() if "/" in path}
    assert partition_files(root) == want
    return root


def is_told_other_epochs(root: Path) -> bool:
    """Whether batches have other leader epochs than the checkpoint beside them, which a broker leaves."""
    return FindingCode.LEADER_EPOCH_MISMATCH in {finding.code for finding in verify(root).findings}


def check(case: RecoveryCase, root: Path, counts: dict[str, int]) -> str:
    before = stamps(root)
    if stays(case, root):
        counts["as it is"] += 1
        recover(Recovery(**given(case)), root)
        different = first_difference(dict(stamps(root)), dict(before))
        return different or taken_by_kafka(case, root)
    if case.id in REFUSED:
        try:
            recover(Recovery(**given(case), accept_loss=True), root)
        except RecoveryRefused:
            counts["refused"] += 1
            return first_difference(dict(stamps(root)), dict(before))
        return "was not refused"
    valid = valid_batches_before_damage(root)
    result = recover(Recovery(**given(case), accept_loss=True), root)[0]
    changes = model_changes(root, case)
    if changes:
        return f"Kafka would not leave it alone: {changes}"
    counts["left alone"] += 1
    if is_kafkas_result_good(case):
        want = {path: held for path, held in case.expected_after().items() if "/" in path}
        held = dict(partition_files(root))
        different = first_difference(held, want)
        if different and is_told_other_epochs(as_kafka_leaves(case, root.with_name(f"{root.name}-kafka"))):
            counts["own epochs"] += 1
            if is_told_other_epochs(root):
                return "its leader epochs contradict the log"
            different = first_difference(*(
                {path: each for path, each in files.items() if not path.endswith(EPOCHS)} for files in (held, want)
            ))  # fmt: skip
        if different:
            return f"not Kafka's bytes, which are sound and stable: {different}"
        counts["same bytes"] += 1
    elif case.family in ("torn_tail", "tail_junk", "bit_flip", "middle_cut"):
        after = valid_batches_before_damage(root)
        first = next(iter(valid), None)
        if first is not None and after.get(first, 0) < valid[first]:
            return f"{first}: {valid[first]} valid bytes before the damage, {after.get(first)} kept"
    if recover(Recovery(**given(case), accept_loss=True), root)[0].run_id is not None:
        return "recovered again, it changed something"
    if result.run_id is not None:
        undo(Undo(run_ids=[result.run_id]), root)
    different = first_difference(dict(stamps(root)), dict(before))
    return f"after undo, {different}" if different else ""


@EACH
@pytest.mark.parametrize("family", FAMILIES)
def test_safe_recovery(family: str, each: int, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    counts = {"left alone": 0, "same bytes": 0, "refused": 0, "as it is": 0, "own epochs": 0}
    problems = []
    for number, case in enumerate(recovery_cases([family])[::each]):
        root = case.unpack_before(tmp_path / str(number))
        problem = check(case, root, counts)
        if problem:
            problems.append(f"{case.id}: {problem}")
    assert not problems
    compared("safe recoveries that the model of the broker leaves alone", counts["left alone"])
    compared("safe recoveries with Kafka's own bytes, where those are sound and stable", counts["same bytes"])
    compared("safe recoveries with leader epochs of the log, where Kafka's contradict it", counts["own epochs"])
    compared("safe recoveries refused, as listed", counts["refused"])
    compared("directories stopped in order that stay as they are, and Kafka kept every log of", counts["as it is"])


@pytest.mark.java
@pytest.mark.parametrize("each", [9, pytest.param(1, marks=pytest.mark.interop)])
@pytest.mark.parametrize("family", FAMILIES)
def test_kafka_itself_leaves_the_result_alone(
    family: str, each: int, kafka: KafkaOracle, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    """Some cases of every family; all of them with the other tests that ask Kafka itself."""
    problems = []
    accepted = 0
    for number, case in enumerate(recovery_cases([family])[::each]):
        root = case.unpack_before(tmp_path / str(number))
        if stays(case, root):
            continue
        with contextlib.suppress(RecoveryRefused):
            recover(Recovery(**given(case), accept_loss=True), root)
        if case.id in REFUSED:
            continue
        for extra in ({}, {"force_unclean": 1}):
            answer = kafka.check(root, {**case.case["params"], **extra})
            if not answer.get("accepted"):
                what = answer.get("changed") or answer.get("exception") or answer.get("removed")
                problems.append(f"{case.id} {extra}: {answer.get('outcome')} {str(what)[:150]}")
        accepted += 1
    assert not problems
    compared("safe recoveries that Kafka 4.1.0 opens without changing a byte", accepted)


@pytest.mark.parametrize("name", sorted(SETTING_AT_FAULT))
def test_the_smallest_index_size_that_works_is_named(name: str, tmp_path: Path) -> None:
    case = recovery_case(name)
    root = case.unpack_before(tmp_path / "logs")
    with pytest.raises(RecoveryRefused, match=r"segment\.index\.bytes=") as refused:
        recover(Recovery(**given(case), accept_loss=True), root)
    words = refused.value.worded(in_options).split("--config segment.index.bytes=")[1]
    size = int(words.split(",")[0])
    options = given(case)
    options["config"]["segment.index.bytes"] = str(size)
    recover(Recovery(**options), root)
    options["config"]["segment.index.bytes"] = str(size - 1)
    assert plan(Recovery(**options, full=True), root)[0].refusal is not None


def test_a_topic_id_comes_from_the_operator(tmp_path: Path) -> None:
    case = recovery_case("partition_metadata/empty")
    root = case.unpack_before(tmp_path / "logs")
    recover(Recovery(**given(case), topic_id="EY8sFxa5y9ipvMtiaRixVA"), root)
    assert (root / "t-0" / "partition.metadata").read_text() == "version: 0\ntopic_id: EY8sFxa5y9ipvMtiaRixVA"


def test_strict_cuts_a_torn_tail_and_declines_a_flipped_bit(tmp_path: Path) -> None:
    torn = next(case for case in recovery_cases(["torn_tail"]) if "middle" not in case.name)
    root = torn.unpack_before(tmp_path / "torn")
    assert recover(Recovery(**given(torn), mode="strict"), root)[0].run_id is not None
    flipped = next(case for case in recovery_cases(["bit_flip"]) if case.outcome == "loaded")
    root = flipped.unpack_before(tmp_path / "flipped")
    before = stamps(root)
    with pytest.raises(RecoveryRefused, match="crc_mismatch"):
        recover(Recovery(**given(flipped), mode="strict"), root)
    assert stamps(root) == before
