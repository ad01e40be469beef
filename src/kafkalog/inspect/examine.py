"""Gather everything for a report: the results of verify, plan, compare and the list of executions, and one more walk
over all batches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from kafkalog import __version__
from kafkalog.codec.common.errors import KafkaLogError, RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import META_PROPERTIES
from kafkalog.copies.compare import compare
from kafkalog.copies.comparison import Comparison
from kafkalog.inspect.annotated import bytes_around
from kafkalog.inspect.facts import Damage, Directory, Planned, ReportFacts
from kafkalog.inspect.lost_batches import is_of_batch
from kafkalog.inspect.report_request import Asked, Watch
from kafkalog.inspect.walked import walk_over
from kafkalog.log.directories.identities import are_copies_of_one
from kafkalog.log.directories.inventory import Inventory, lost_directories, open_all
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import ALL
from kafkalog.log.directories.zookeeper_directories import without_zookeeper
from kafkalog.recovery.act.history import RunInfo, runs
from kafkalog.recovery.act.room import has_no_room_to_start, why_no_room
from kafkalog.recovery.act.unfinished_business import standing
from kafkalog.recovery.broker.start_question import StartQuestion
from kafkalog.recovery.checks.report import VerifyReport
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.decide.node_part import with_nodes
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.duplicates import roots_with_duplicates, tell_duplicates
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.recovery.facts.recovery_request import Recovery, Rules, settled
from kafkalog.recovery.run import log_directory_of, plan_one

__all__ = ["MOST_DAMAGES", "examine"]

MOST_DAMAGES = 200
"""Most findings that are shown one by one."""
_OF_ONE_KIND = 5
"""Most findings of one code in one file that are shown one by one."""


def examine(paths: Sequence[str], asked: Asked, watch: Watch) -> ReportFacts:
    """Verify, plan and compare what `asked` selects in the log directories at `paths`, and return the facts for a
    report; changes nothing in them. `watch` shows the progress. A comparison or plan that fails becomes a problem in
    the result.

    Reads the clock for `made_at` (ms since 1970). Raises `UsageError` if a path holds nothing of Kafka's or everything
    selected is excluded. Raises `UnknownName` if a chosen topic is missing. Raises `StorageError` if a request to an
    object store fails.
    """
    volumes, zookeepers = without_zookeeper(paths)
    inventory = open_all(*volumes, tolerant=True, missing_too=True, limits=asked.limits)
    placed = list(_chosen(inventory, asked))
    size = sum(partition.size for _directory, partition in placed)
    whole = asked.chosen == ALL
    to_verify = paths if whole else [partition.path for _directory, partition in placed]
    with watch.reading("verifying", size) as advance:
        node = StartQuestion(properties=asked.server)
        verified = verify(*to_verify, deep=asked.deep, limits=asked.limits, on_read=advance, asked=node)
    by_file = _by_file(verified.findings)
    of_partition = {partition.path: partition for partition in verified.partitions}
    with watch.reading("drawing", size) as advance:
        examined = walk_over(placed, by_file, of_partition, asked.limits, advance)
    comparison, comparison_problem = _compared(paths, inventory, asked, watch, size)
    planned = tuple(_planned(inventory, placed, asked, watch, zookeepers))
    copied = _copies_of_one(inventory)
    serious = [each for each in verified.findings if each.severity is not Severity.INFO and not _is_of(copied, each)]
    serious.sort(key=_by_weight)
    return ReportFacts(
        paths=tuple(paths),
        version=__version__,
        made_at=time.time_ns() // 1_000_000,
        arguments=asked.words,
        directories=tuple(_directories(inventory, verified, _sizes(placed))),
        examined=examined,
        findings=serious,
        damages=tuple(_damages(serious, asked.with_bytes)),
        informations=len(verified.findings) - len(serious),
        behind_damage=sum(partition.sound_records_behind_damage for partition in verified.partitions),
        planned=planned,
        comparison=comparison,
        comparison_problem=comparison_problem,
        runs=tuple((log_dir.path, run_infos) for log_dir in inventory.log_dirs if (run_infos := _runs(log_dir.path))),
        deep=asked.deep,
        unread=tuple(f"{finding.file}: {finding.detail}" for finding in inventory.unreadable),
    )


def _copies_of_one(inventory: Inventory) -> frozenset[str]:
    """Paths of `meta.properties` of all log directories if these are copies of one directory at several times; else
    empty.
    """
    if not are_copies_of_one(inventory.log_dirs):
        return frozenset()
    return frozenset(os.path.join(log_dir.path, META_PROPERTIES) for log_dir in inventory.log_dirs)


def _is_of(copied: frozenset[str], finding: Finding) -> bool:
    """Whether a finding only says that copies share an id, which makes them comparable, and does not mean damage."""
    return finding.code is FindingCode.IDENTITY_MISMATCH and finding.file in copied


def _placed(inventory: Inventory) -> Iterator[tuple[str, Partition]]:
    """Yield (path of the log directory, partition) for every partition. For a partition that was passed by its own
    path, the first item is that path.
    """
    for log_dir in inventory.log_dirs:
        for partition in log_dir.partitions:
            yield log_dir.path, partition
    for partition in inventory.standalone:
        yield partition.path, partition


def _chosen(inventory: Inventory, asked: Asked) -> Iterator[tuple[str, Partition]]:
    """Yield the selected partitions. Raises `UnknownName` if a named one does not exist, `UsageError` if everything
    selected is excluded.
    """
    asked.chosen.check(inventory.names)
    for where, partition in _placed(inventory):
        if asked.chosen.takes(partition.topic, partition.partition):
            yield where, partition


def _sizes(placed: Sequence[tuple[str, Partition]]) -> dict[str, tuple[int, int]]:
    """Return the number of partitions and the total bytes of their logs for each directory in `placed`. A partition
    that was passed by its own path is a directory of its own.
    """
    sizes: dict[str, tuple[int, int]] = {}
    for directory, partition in placed:
        count, size = sizes.get(directory, (0, 0))
        sizes[directory] = (count + 1, size + partition.size)
    return sizes


def _by_weight(finding: Finding) -> tuple[bool, bool, str, int]:
    """Sort key: errors first, and among them those with a position, as those without follow from them."""
    is_placed = finding.position is not None
    return finding.severity is not Severity.ERROR, not is_placed, finding.file or "", finding.position or 0


def _by_file(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.file is not None:
            by_file.setdefault(finding.file, []).append(finding)
    return by_file


def _damages(findings: Sequence[Finding], with_bytes: bool) -> Iterator[Damage]:
    """Yield the damages to show for findings, in order. At most `_OF_ONE_KIND` findings of each code and file are
    shown, and at most `MOST_DAMAGES` in total. If `with_bytes`, each has the bytes around it. The `count` of the last
    of the `_OF_ONE_KIND` findings includes the findings of its code and file that come after it. All other counts are
    1.
    """
    counts: dict[tuple[FindingCode, str | None], int] = {}
    for finding in findings:
        counts[finding.code, finding.file] = counts.get((finding.code, finding.file), 0) + 1
    shown: dict[tuple[FindingCode, str | None], int] = {}
    told = 0
    for finding in findings:
        key = finding.code, finding.file
        shown[key] = shown.get(key, 0) + 1
        if shown[key] > _OF_ONE_KIND or told >= MOST_DAMAGES:
            continue
        told += 1
        stands_for = counts[key] - _OF_ONE_KIND + 1 if shown[key] == _OF_ONE_KIND else 1
        yield Damage(finding, bytes_around(finding) if with_bytes else None, max(stands_for, 1))


def _directories(
    inventory: Inventory, verified: VerifyReport, sizes: Mapping[str, tuple[int, int]]
) -> Iterator[Directory]:
    brokers = {directory.path: directory.broker for directory in verified.directories}
    for log_dir in inventory.log_dirs:
        meta, start = log_dir.meta_properties, brokers.get(log_dir.path)
        count, size = sizes.get(log_dir.path, (0, 0))
        yield Directory(
            path=log_dir.path,
            cluster_id=None if meta is None else meta.cluster_id,
            node_id=None if meta is None else meta.node_id,
            clean_shutdown=log_dir.clean_shutdown is not None,
            partitions=count,
            size=size,
            broker=None if start is None else start.outcome,
            standing=standing(log_dir.path),
        )


def _runs(root: str) -> tuple[RunInfo, ...]:
    try:
        return runs(root)
    except (RecoveryRefused, StorageError, UsageError):
        return ()  # `standing` says why they cannot be told


def _compared(
    paths: Sequence[str], inventory: Inventory, asked: Asked, watch: Watch, size: int
) -> tuple[Comparison | None, KafkaLogError | None]:
    """Return (comparison of the copies, None). If the comparison failed with `StorageError` or `UsageError`, return
    (None, error). If no partition is in two places, nothing is read, and the result is (None, None). Raises
    `StorageError` if a request to an object store fails before the comparison.
    """
    if not inventory.duplicates():
        return None, None
    try:
        with watch.reading("comparing", size) as advance:
            return compare(
                *paths,
                select=asked.chosen,
                limits=asked.limits,
                on_read=advance,
            ), None
    except (StorageError, UsageError) as error:
        return None, error


def _planned(
    inventory: Inventory,
    placed: Sequence[tuple[str, Partition]],
    asked: Asked,
    watch: Watch,
    zookeepers: Sequence[str],
) -> Iterator[Planned]:
    """Yield a plan for each chosen log directory, and for each local partition directory that was passed by its own
    path. For a log directory, the other chosen log directories with the same partitions serve as copies. If planning
    fails, it is tried again without copies. If that fails too, yield an entry with the first error.

    Directories of one broker that share a partition are not copies of each other. No broker starts on them, and their
    plans say so; these plans are yielded last. `zookeepers` are ZooKeeper's data directories, from which a start is
    predicted too. Raises `StorageError` if a directory cannot be examined before the first plan.
    """
    wanted = {directory for directory, _partition in placed}
    roots = [log_dir.path for log_dir in inventory.log_dirs if log_dir.path in wanted or asked.chosen == ALL]
    alone = [each.path for each in inventory.standalone if each.path in wanted and os.path.isdir(each.path)]
    possible = [path for path in (*roots, *alone) if _has_root(path)]
    request = Recovery(config=asked.config, server=asked.server, at=asked.at, select=asked.chosen)
    known_roots = [*map(log_directory_of, possible), *zookeepers]
    facts = facts_of_each(known_roots, lost_directories(inventory.unreadable)) if possible else {}
    holders, colliding = _holders(inventory), _colliding(inventory, roots)
    made: dict[str, Plan | KafkaLogError] = {}
    rules: dict[str, Rules] = {}
    with watch.planning() as update:
        for path in (*roots, *alone):
            copies = () if os.path.realpath(path) in colliding else tuple(
                other for other in roots if other != path and holders.get(path, set()) & holders[other]
            )  # fmt: skip
            for with_copies in dict.fromkeys((copies, ())):
                known = facts[log_directory_of(path)] if path in possible else None
                of_path = structs.replace(request, topics=known, copies=with_copies)
                try:
                    plan = plan_one(path, of_path, jobs=asked.jobs, on_progress=update, is_one_of_several=True)
                    rules[plan.root] = settled(of_path, [plan.root])
                except (RecoveryRefused, StorageError, UsageError) as error:
                    made.setdefault(path, error)
                    continue
                made[path] = plan
                break
    made = _with_nodes(made, rules)
    held = []
    for path, result in made.items():
        if not isinstance(result, Plan):
            yield Planned(path=path, root=os.path.realpath(path), problem=result)
        elif result.root in colliding:
            held.append((path, result))
        else:
            yield _kept(path, result)
    for (path, _plan), told in zip(held, tell_duplicates([plan for _path, plan in held]), strict=True):
        yield _kept(path, told)


def _with_nodes(
    made: Mapping[str, Plan | KafkaLogError], rules: Mapping[str, Rules]
) -> dict[str, Plan | KafkaLogError]:
    """Return `made` with the forecast of the nodes' starts in each plan, one forecast for all directories of a node.
    Errors in `made` stay. If the forecast fails, it is made again for each plan alone; if that fails too, the error
    takes the plan's place.
    """
    plans = {path: plan for path, plan in made.items() if isinstance(plan, Plan)}
    try:
        return {**made, **dict(zip(plans, with_nodes([*plans.values()], rules), strict=True))}
    except (StorageError, UsageError) as error:
        if len(made) == 1:
            return dict.fromkeys(made, error)
    return {each: result for path in made for each, result in _with_nodes({path: made[path]}, rules).items()}


def _colliding(inventory: Inventory, roots: Sequence[str]) -> frozenset[str]:
    """Return the real paths of the log directories of one broker that share a live partition. Empty if the directories
    are copies of one, or if they cannot be compared because one cannot be read.
    """
    if are_copies_of_one(inventory.log_dirs):
        return frozenset()
    try:
        return roots_with_duplicates([os.path.realpath(root) for root in roots])
    except StorageError:
        return frozenset()


_ABOUT_LOSSES = codes_with(Trait.OF_LOSSES) | {FindingCode.PARTITION_MISSING}


def _kept(path: str, plan: Plan) -> Planned:
    """Return the parts of `plan` that the report shows, and whether the file systems have enough free space, which is
    examined here. The plan itself, which holds all files of a directory, can then be freed.
    """
    return Planned(
        path=path,
        root=plan.root,
        forecast=plan.broker,
        refusal=plan.refusal,
        files=len(plan.actions),
        names=plan.names,
        mode=plan.mode,
        is_worth_a_look=plan.is_worth_a_look,
        is_not_needed=plan.is_not_needed,
        needs_consent=plan.needs_consent,
        needs_full=plan.needs_full,
        lost_in_deleted=plan.lost_in_deleted,
        kept_by_runs=plan.kept_by_runs,
        copies=plan.copies,
        note_of_identity=plan.note_of_identity,
        no_room=why_no_room(plan),
        has_no_room_to_start=has_no_room_to_start(plan),
        made_stray=tuple(plan.made_stray),
        choice=plan.choice,
        declined=plan.declined,
        deleted=plan.deleted,
        deleted_partitions=plan.deleted_partitions,
        deleted_beyond_end=plan.deleted_beyond_end,
        identity_in=plan.identity_in,
        metadata_beside=plan.metadata_beside,
        asked_for=plan.asked_for,
        changing=plan.changing,
        damages=[finding for finding in plan.findings if is_of_batch(finding) or finding.code in _ABOUT_LOSSES],
        consequences=plan.consequences,
        waits_for_a_run=plan.waits_for_a_run,
    )


def _holders(inventory: Inventory) -> dict[str, set[object]]:
    """Return, by path of each log directory, the names of its partitions that are also live in another directory; the
    set is empty if there are none. A partition directory that was passed by its own path counts as another directory,
    but has no entry. Raises `StorageError` if a request to an object store fails.
    """
    several = {partition.path: name for name, partitions in inventory.duplicates().items() for partition in partitions}
    return {
        log_dir.path: {several[partition.path] for partition in log_dir.partitions if partition.path in several}
        for log_dir in inventory.log_dirs
    }


def _has_root(path: str) -> bool:
    try:
        log_directory_of(path)
    except (RecoveryRefused, StorageError, UsageError):
        return False
    return True
