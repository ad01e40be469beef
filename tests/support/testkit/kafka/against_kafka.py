"""One damaged directory, recovered by Kafka and by us: what differs in mode kafka, and whether safe's result stays."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kafkalog
from kafkalog import RecoveryRefused
from testkit.judging import compare, seam
from testkit.judging.trees import first_difference, stamps
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made import damage, histories

THROUGH_A_LINK = "is a dangling symbolic link, through which a broker would write"
DECLINED = "declined"
# The broker writes these at its stop, whatever it found; recovery leaves them alone or not, by its own promise.
# A broker's stop also writes through a symbolic link that is in place of one of them.
IGNORED = (*compare.LOG_DIR_FILES, *seam.OWN_FILES, damage.NOWHERE)
MARKER = ".kafka_cleanshutdown"
REASONS = ("segment.index.bytes", "topic id", "symbolic link", "hard links")
"""What only the operator can decide; every sentence names one."""


def difference(root: Path, case: histories.Case, kafka: KafkaOracle) -> tuple[str, str]:
    """Kafka's outcome for a damaged directory, and the first difference of ours ("" if there is none)."""
    ours = root.with_name(root.name + "-ours")
    shutil.copytree(root, ours, symlinks=True)
    try:
        result = kafka.recover(root, {**case.params, "hash": 0})
        try:
            return result["outcome"], _difference_from(result, root, ours, case)
        except Exception as e:  # noqa: BLE001 - whatever it is, it is our fault and belongs to this case
            at = traceback.extract_tb(e.__traceback__)[-1]
            return result["outcome"], f"kafkalog raised {e!r} in {Path(at.filename).name}, {at.name}, line {at.lineno}"
    finally:
        shutil.rmtree(ours)


def recovered(root: Path, case: histories.Case) -> bool:
    """Recover in mode kafka; False if recovery declined because a broker writes through a symbolic link."""
    try:
        seam.recover(root, case.params)
    except RecoveryRefused as refused:
        if THROUGH_A_LINK not in str(refused) or not any(op["op"] == "symlink" for op in case.ops):
            raise
        return False
    return True


def _difference_from(result: dict[str, Any], root: Path, ours: Path, case: histories.Case) -> str:
    said = seam.broker_outcome(ours, case.params)
    both_refuse = "loaded" not in (said, result["outcome"])
    if said != result["outcome"] and not (both_refuse and case.has_several):
        reason = (result["exception"] or {}).get("message")
        return f"outcome: {result['outcome']} ({reason}), not {said}"
    if result["outcome"] != "loaded":
        return ""
    if not recovered(ours, case):
        return DECLINED
    found = compare.compare(root, ours, IGNORED)
    return str(found[0]) if found else ""


def left_alone(root: Path, case: histories.Case, kafka: KafkaOracle) -> tuple[str, str]:
    """ "kept", "in order" or "declined", and what is wrong (empty if nothing is).

    "in order": partitions that a broker had closed in order stay as they were, and Kafka rebuilds files beside logs.
    """
    before = stamps(root)
    try:
        at = int(str(case.params["now_ms"]))
        result = kafkalog.recover(
            kafkalog.Recovery(mode="safe", config=seam.config(case.params), at=at, accept_loss=True), root
        )[0]
    except RecoveryRefused as refused:
        changed = first_difference(dict(stamps(root)), dict(before))
        if not any(reason in str(refused) for reason in REASONS):
            return "declined", f"declined without a known reason: {refused}"
        return "declined", changed
    if result.declined:  # the others were recovered; a broker may stop at what was left as it is
        odd = [why for why in result.declined.values() if not any(reason in why for reason in REASONS)]
        return "declined", f"declined without a known reason: {odd}" if odd else ""
    how, after = "kept", stamps(root)
    for extra in ({}, {"force_unclean": 1}):
        answer = kafka.check(root, {**case.params, **extra})
        if not answer.get("accepted"):
            if rebuilds_beside(answer, before, after):
                how = "in order"
                continue
            what = answer.get("exception") or [answer.get(name) for name in ("changed", "removed", "created")]
            return "kept", f"Kafka {answer.get('outcome')} {extra}: {str(what)[:300]}"
    return how, ""


def rebuilds_beside(answer: dict[str, Any], before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Whether Kafka touches nothing but files beside the logs of partitions that a marker vouched for.

    They are as they were `before` the recovery, and so are their logs after Kafka's start.
    """
    touched = [path for name in ("changed", "removed", "created") for path in answer.get(name) or ()]
    if MARKER not in before or answer.get("outcome") != "loaded":
        return False
    for path in touched:
        directory, inside, _ = path.partition("/")
        ours = [each for each in {*before, *after} if each.startswith(f"{directory}/")]
        if not inside or path.endswith(".log") or any(before.get(each) != after.get(each) for each in ours):
            return False
    return bool(touched)
