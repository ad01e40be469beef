"""Many log directories at once: each is checked or recovered in a task of its own, wherever Spark runs that.

A report comes back for every directory, whatever happened there.  The work is done when the function returns, once:
the DataFrame holds the reports and does nothing when it is used.  The directories must be reachable under the same
path from every executor, so recovery is for shared storage, or for a cluster that runs on one machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from kafkalog.codec.errors import KafkaLogError, RecoveryRefused, UsageError
from kafkalog.codec.findings import BatchOutline, Severity, Unread
from kafkalog.log.disk.files import PathLike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkalog.codec.findings import Finding

__all__ = ["recover_many", "verify_many"]



def _numbers(part: type[Unread | BatchOutline]) -> str:
    """A part of a finding, of which every field is an offset, a count or a time."""
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
    """A position or an offset for a column of 64 bits; damaged headers claim larger ones."""
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
    if not found:
        raise UsageError("no path was given")
    return found


def _run(spark: SparkSession, work: Any, items: Sequence[Any], schema: str) -> DataFrame:
    rows = spark.sparkContext.parallelize(items, len(items)).flatMap(work).collect()
    return spark.createDataFrame(rows, schema)


def verify_many(spark: SparkSession, paths: Iterable[PathLike], *, deep: bool = True) -> DataFrame:
    """Check log or partition directories, each in its own task; one row for each, in the order of the paths.

    Columns: path; outcome (`clean`, `findings`, or `failed` with a message); errors, warnings; findings, with the
    fields of their JSON (times in ms); report, the JSON of `kafkalog verify --json`.  Changes nothing.  Raises
    `UsageError` for paths named twice.
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
    """Recover log directories, each in its own task; several of one broker, given as a list, in one task.

    Columns: path; outcome (`unchanged`, `recovered`, `refused` or `failed`); run_id, for `kafkalog undo`; quarantine;
    message: why it was refused, failed, or left partitions as they are (including those that cannot be read); report,
    the JSON of `kafkalog recover --json`.  `mode`, `config`, `full`, `quarantine` and `accept_loss` are those of
    `kafkalog.recover`.  If Spark runs a task again, it completes what the first one began: the lock and the journal in
    the directory ensure that.  Raises `UsageError` for paths named twice.
    """
    from kafkalog.recovery.facts.recovery_request import mode_named

    mode_named(mode)  # refused before anything starts
    groups = [[each] if isinstance(each, (str, os.PathLike)) else list(each) for each in paths]
    names = iter(_distinct(path for group in groups for path in group))
    items = [tuple(next(names) for _ in group) for group in groups]
    work = partial(
        _recover, mode=mode, config=dict(config or {}), full=full, quarantine=quarantine, accept_loss=accept_loss
    )
    return _run(spark, work, items, _RECOVERED)
