"""Checks or recovers many log directories, each in its own Spark task.

There is a report for every directory, whatever happens. The work is done once, when the function returns. The DataFrame
only holds the reports. Every executor must reach the directories under the same path, so recovery is for shared
storage, or for a cluster on a single machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from kafkalog.codec.common.errors import KafkaLogError, RecoveryRefused, UsageError
from kafkalog.codec.common.findings import BatchOutline, Severity, Unread
from kafkalog.log.disk.files import PathLike, refuse_no_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkalog.codec.common.findings import Finding

__all__ = ["recover_many", "verify_many"]



def _numbers(part: type[Unread | BatchOutline]) -> str:
    """Spark type of a part of a finding whose fields are all offsets, counts or times."""
    return f"struct<{','.join(f'{name}:bigint' for name in part.__struct_fields__)}>"


_FINDINGS = (
    "array<struct<code:string,severity:string,file:string,position:bigint,offset:bigint,last_offset:bigint,"
    f"unread:{_numbers(Unread)},batch:{_numbers(BatchOutline)},detail:string>>"
)
_VERIFIED = (
    f"path string, outcome string, errors int, warnings int, findings {_FINDINGS}, message string, report string"
)
_RECOVERED = "path string, outcome string, run_id string, quarantine string, message string, report string"

Row = tuple[Any, ...]
Group = tuple[str, ...]


def _largest(value: int | None) -> int | None:
    """Return a position or offset for a 64-bit column; None if it is larger, as in damaged headers."""
    return value if value is None or -(2**63) <= value < 2**63 else None


def _finding(found: Finding) -> Row:
    unread, batch = (each and tuple(map(_largest, astuple(each))) for each in (found.unread, found.batch))
    return (
        str(found.code), str(found.severity), found.file, _largest(found.position), _largest(found.offset),
        _largest(found.last_offset), unread, batch, found.detail,
    )  # fmt: skip


def _verify(path: str, *, deep: bool) -> list[Row]:
    from kafkalog.recovery.checks.verify import verify

    try:
        report = verify(path, deep=deep)
    except (KafkaLogError, OSError) as error:
        return [(path, "failed", None, None, None, str(error), None)]
    by_severity = [finding.severity for finding in report.findings]
    return [
        (
            path,
            "clean" if report.is_clean else "findings",
            by_severity.count(Severity.ERROR),
            by_severity.count(Severity.WARNING),
            [_finding(finding) for finding in report.findings],
            None,
            "\n".join(json.dumps(line) for line in report.as_dicts()),
        )
    ]


def _recover(
    group: Group, *, mode: str, config: Mapping[str, str], full: bool, quarantine: str | None, accept_loss: bool
) -> list[Row]:
    from kafkalog.recovery.facts.recovery_request import Recovery, mode_named
    from kafkalog.recovery.run import recover

    request = Recovery(
        mode=mode_named(mode), config=config, full=full, accept_loss=accept_loss, quarantine=quarantine
    )
    try:
        results = recover(request, *group)
    except RecoveryRefused as refused:
        return [(path, "refused", None, None, str(refused), None) for path in group]
    except (KafkaLogError, OSError) as error:
        return [(path, "failed", None, None, str(error), None) for path in group]
    rows: list[Row] = []
    for path, result in zip(group, results, strict=True):
        # a task that was run again finds nothing to do, and says which run had to be completed
        runs = [*result.completed, *([result.run_id] if result.run_id is not None else [])]
        outcome = "recovered" if result.changed else "unchanged"
        run_id = runs[-1] if runs else None
        message = "; ".join(result.declined.values()) or None
        rows.append((path, outcome, run_id, result.quarantine, message, json.dumps(result.as_dict())))
    return rows


def _distinct(paths: Iterable[PathLike]) -> list[str]:
    found = [os.path.abspath(os.fspath(path)) for path in paths]
    seen: dict[str, str] = {}
    for path in found:
        other = seen.setdefault(os.path.realpath(path), path)
        if found.count(path) > 1 or other != path:
            raise UsageError(f"{path} is named twice; each directory is worked on once")
    refuse_no_path(found)
    return found


def _run(spark: SparkSession, work: Any, items: Sequence[Any], schema: str) -> DataFrame:
    rows = spark.sparkContext.parallelize(items, len(items)).flatMap(work).collect()
    return spark.createDataFrame(rows, schema)


def verify_many(spark: SparkSession, paths: Iterable[PathLike], *, deep: bool = True) -> DataFrame:
    """Check log or partition directories, each in its own task. One row each, in the order of the paths.

    Columns: path; outcome (`clean`, `findings`, or `failed` with a message); errors, warnings; findings, with the
    fields of their JSON (times in ms); report, the JSON of `kafkalog verify --json`. Changes nothing. Raises
    `UsageError` for repeated paths.
    """
    return _run(spark, partial(_verify, deep=deep), _distinct(paths), _VERIFIED)


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
    """Recover log directories, each in its own Spark task, and return a DataFrame with one row per directory.
    Several directories of one broker, given as a list, are recovered in one task. The tasks run when the DataFrame
    is evaluated.

    Columns: path; outcome (`unchanged`, `recovered`, `refused` or `failed`); run_id, for `kafkalog undo`;
    quarantine; message: why it was refused, failed, or left partitions unchanged (including unreadable ones);
    report, the JSON of `kafkalog recover --json`. `mode`, `config`, `full`, `quarantine` and `accept_loss` are those
    of `kafkalog.recover`. If Spark repeats a task, it completes what the first one began, because of the lock and
    the journal in the directory. Raises `UsageError` for repeated paths or an unknown mode.
    """
    from kafkalog.recovery.facts.recovery_request import mode_named

    mode_named(mode)  # refused before anything starts
    groups = [[path] if isinstance(path, (str, os.PathLike)) else list(path) for path in paths]
    names = iter(_distinct(path for group in groups for path in group))
    items = [tuple(next(names) for _ in group) for group in groups]
    work = partial(
        _recover, mode=mode, config=dict(config or {}), full=full, quarantine=quarantine, accept_loss=accept_loss
    )
    return _run(spark, work, items, _RECOVERED)
