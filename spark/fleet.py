"""Check or recover many log directories, each in its own Spark task.

There is a report for every directory, even if its task fails with an error of kafkalog. The work is done once, before
the function returns; the DataFrame only holds the reports. Every executor must reach the directories under the same
path, so recovery is for shared storage, or for a cluster on a single machine.
"""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import astuple

from kafkalog.codec.common.errors import KafkaLogError, RecoveryRefused, UsageError
from kafkalog.codec.common.findings import FindingJson, Severity
from kafkalog.codec.common.shapes import shaped
from kafkalog.log.disk.files import PathLike, refuse_no_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["recover_many", "verify_many"]



class VerifiedLine(Struct, frozen=True, kw_only=True):
    """The row of a directory that was checked."""

    path: str
    outcome: str
    errors: int | None = None
    warnings: int | None = None
    findings: list[FindingJson] | None = None
    message: str | None = None
    report: str | None = None


class RecoveredLine(Struct, frozen=True, kw_only=True):
    """The row of a directory that was recovered."""

    path: str
    outcome: str
    run_id: str | None = None
    quarantine: str | None = None
    message: str | None = None
    report: str | None = None


Line = VerifiedLine | RecoveredLine
Group = tuple[str, ...]


def _cells(value: object) -> object:
    """Return the value as Spark takes it: a Struct as the tuple of its fields, an enum as its value, and the same for
    items of lists and fields of Structs. Integers beyond 64 bits, such as offsets from damaged headers, become None.
    """
    match value:
        case Struct():
            return tuple(map(_cells, astuple(value)))
        case list():
            return list(map(_cells, value))
        case enum.Enum():
            return value.value
        case int() if not -(2**63) <= value < 2**63:
            return None
    return value


def _verify(path: str, *, deep: bool) -> list[Line]:
    from kafkalog.recovery.checks.verify import verify

    try:
        report = verify(path, deep=deep)
    except (KafkaLogError, OSError) as error:
        return [VerifiedLine(path=path, outcome="failed", message=str(error))]
    by_severity = [finding.severity for finding in report.findings]
    return [
        VerifiedLine(
            path=path,
            outcome="clean" if report.is_clean else "findings",
            errors=by_severity.count(Severity.ERROR),
            warnings=by_severity.count(Severity.WARNING),
            findings=shaped(list(report.findings), list[FindingJson]),
            report="\n".join(json.dumps(line) for line in report.as_dicts()),
        )
    ]


def _recover(
    group: Group, *, mode: str, config: Mapping[str, str], full: bool, quarantine: str | None, accept_loss: bool
) -> list[Line]:
    from kafkalog.recovery.facts.recovery_request import Recovery, mode_named
    from kafkalog.recovery.run import recover

    request = Recovery(
        mode=mode_named(mode), config=config, full=full, accept_loss=accept_loss, quarantine=quarantine
    )
    try:
        results = recover(request, *group)
    except RecoveryRefused as refused:
        return [RecoveredLine(path=path, outcome="refused", message=str(refused)) for path in group]
    except (KafkaLogError, OSError) as error:
        return [RecoveredLine(path=path, outcome="failed", message=str(error)) for path in group]
    named = {os.path.realpath(path): path for path in group}
    rows: list[Line] = []
    for result in results:
        # a repeated task may find nothing to do: the run that it had to complete is then the last one
        runs = [*result.completed, *([result.run_id] if result.run_id is not None else [])]
        line = RecoveredLine(
            path=named.get(result.plan.root, result.plan.root),
            outcome="recovered" if result.changed else "unchanged",
            run_id=runs[-1] if runs else None,
            quarantine=result.quarantine,
            message="; ".join(result.declined.values()) or None,
            report=json.dumps(result.as_dict()),
        )
        rows.append(line)
    return rows


def _distinct(paths: Iterable[PathLike]) -> list[str]:
    absolute = [os.path.abspath(os.fspath(path)) for path in paths]
    seen: dict[str, str] = {}
    for path in absolute:
        other = seen.setdefault(os.path.realpath(path), path)
        if absolute.count(path) > 1 or other != path:
            raise UsageError(f"{path} is named twice; each directory is worked on once")
    refuse_no_path(absolute)
    return absolute


def _run(
    spark: SparkSession, work: Callable[[Any], list[Line]], items: Sequence[Any], line: type[Line]
) -> DataFrame:
    from kafkalog.spark.struct_columns import struct_of

    lines = spark.sparkContext.parallelize(items, len(items)).flatMap(work).collect()
    return spark.createDataFrame(list(map(_cells, lines)), struct_of(line, as_json=True))


def verify_many(spark: SparkSession, paths: Iterable[PathLike], *, deep: bool = True) -> DataFrame:
    """Check log or partition directories, each in its own Spark task, and return a DataFrame with one row per
    directory, in the order of the paths. Returns when all are checked. Changes nothing.

    Columns: path; outcome (`clean`, `findings`, or `failed` with a message); errors and warnings, their numbers;
    findings, with the fields of their JSON (times in ms); message, None unless it failed; report, the JSON of `kafkalog
    verify --json`. Without `deep`, batches are not decoded. Raises `UsageError` if a path is repeated or none is given.
    """
    return _run(spark, partial(_verify, deep=deep), _distinct(paths), VerifiedLine)


def recover_many(
    spark: SparkSession,
    paths: Iterable[PathLike | Sequence[PathLike]],
    *,
    mode: str = "safe",
    config: Mapping[str, str] | None = None,
    full: bool = False,
    quarantine: str | None = None,
    accept_loss: bool = False,
) -> DataFrame:
    """Recover log directories, each in its own Spark task, and return a DataFrame with one row per directory, in the
    order of the paths. Several directories of one broker, given as a list, are recovered in one task. Returns when all
    tasks have ended; using the DataFrame does not recover again.

    Columns: path; outcome (`unchanged`, `recovered`, `refused` or `failed`); run_id, for `kafkalog undo`; quarantine;
    message: why it was refused, failed, or left partitions unchanged (including unreadable ones); report, the JSON of
    `kafkalog recover --json`. The last four may be null. The path is as given but absolute. If a partition or a parent
    of the log directory is given, the path is the log directory itself, unless the recovery was refused or failed.
    `mode`, `config`, `full`, `quarantine` and `accept_loss` mean the same as in `kafkalog.recover`. If Spark repeats a
    task, the second run completes the recovery that the first one began; the lock and the journal in the directory
    ensure this. Raises `UsageError` for repeated paths, no path, or an unknown mode.
    """
    from kafkalog.recovery.facts.recovery_request import mode_named

    mode_named(mode)  # an unknown mode raises before anything starts
    groups = [[path] if isinstance(path, (str, os.PathLike)) else list(path) for path in paths]
    names = iter(_distinct(path for group in groups for path in group))
    items = [tuple(next(names) for _ in group) for group in groups]
    work = partial(
        _recover, mode=mode, config=dict(config or {}), full=full, quarantine=quarantine, accept_loss=accept_loss
    )
    return _run(spark, work, items, RecoveredLine)
