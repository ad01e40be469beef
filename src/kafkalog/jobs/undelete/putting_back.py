"""Plan which deleted data is restored in one log directory, and by which actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.files.text import PartitionMetadata, encode_partition_metadata
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    DELETED,
    LOCK_FILE,
    PARTITION_METADATA,
    DirectoryState,
    FileKind,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.jobs.undelete.remains import (
    Remains,
    RemainsKind,
    files_by_directory,
    fitting_segments,
    live_log,
    remains_in,
    why_elsewhere,
    why_not_fitting,
)
from kafkalog.jobs.undelete.request import Undelete
from kafkalog.jobs.undelete.results import PutBack, UndeletePlan
from kafkalog.recovery.broker.manager import topic_id_or_none
from kafkalog.recovery.decide.actions import ActionKind, RecoveryAction, difference, marker_first
from kafkalog.recovery.decide.deleted_data import log_of_finished_move
from kafkalog.recovery.decide.losses import first_names
from kafkalog.recovery.decide.refusals import refuse_unsafe
from kafkalog.recovery.facts.recovery_request import Recovery, settled
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.topic_facts import TopicFacts
from kafkalog.recovery.safe.normalize import Checkpoints
from kafkalog.recovery.safe.recovery import recover_safely
from kafkalog.recovery.safe.result import SafeResult

__all__ = ["plan_directory"]

_TAILS = codes_with(Trait.TAIL)


def plan_directory(
    stack: ExitStack, root: str, wanted: Undelete, facts: TopicFacts, emptied: Mapping[str, str] | None = None
) -> UndeletePlan:
    """Plan the restoration of deleted data in the log directory `root`; return the plan. Reads only; `stack` closes the
    plan's surveys. If the request says `hold`, the plan only renames `-delete` directories, and removes the
    clean-shutdown marker if there is one.

    `emptied` maps empty partitions, which the plan removes, to the log directory in which their logs are restored.
    Raises `RecoveryRefused` if the topic has no deleted data and `emptied` is empty, or if the data cannot be restored
    or held safely. Raises `UsageError` if the request has another topic name and deleted segments of a live partition
    are chosen. Raises `StorageError` if a directory of the selected partitions cannot be read.
    """
    emptied = emptied or {}
    whole = stack.enter_context(survey(root, tolerant=True))
    for directory, error in whole.unreadable.items():
        name = parse_partition_directory(directory)
        is_asked_for = name is not None and (not wanted.partitions or name.partition in wanted.partitions)
        if name is not None and is_asked_for and name.topic == wanted.topic:
            raise error
    chosen = _chosen(whole, wanted, is_needed=not emptied)
    if wanted.hold:
        return _hold(stack, whole, wanted, chosen, facts)
    target_of = {remains.directory: _target(remains, wanted) for remains in chosen}
    _refuse_collisions(chosen, target_of)
    names = frozenset({*target_of, *target_of.values(), *emptied})
    surveyed = stack.enter_context(survey(root, only=names))
    making = _Making(surveyed, target_of, wanted, facts)
    for remains in chosen:
        making.take(remains)
    for empty, place in emptied.items():
        making.give_way(empty, place)
    return making.finish()


def _chosen(whole: Survey, wanted: Undelete, *, is_needed: bool) -> list[Remains]:
    """Return the deleted data to restore, sorted by directory. Raises `RecoveryRefused` if a partition has several
    directories with deleted data and the request names none of them, unless they are to be held. If there is no deleted
    data, raises `RecoveryRefused` with `is_needed`, and otherwise returns an empty list. Raises `StorageError` if a
    directory cannot be read.
    """
    leftovers = [
        remains
        for remains in remains_in(whole, None, wanted.topic, wanted.partitions)
        if wanted.is_source(remains.directory)
    ]
    if not leftovers and is_needed:
        raise wanted.nothing_in(whole.root)
    by_partition: dict[int, list[Remains]] = {}
    for remains in leftovers:
        by_partition.setdefault(remains.partition, []).append(remains)
    for number, several in sorted(by_partition.items()) if not wanted.hold else ():  # held ones keep their ids
        wanted.refuse_several(number, [remains.directory for remains in several])
    return leftovers


def _hold(
    stack: ExitStack, whole: Survey, wanted: Undelete, chosen: Sequence[Remains], facts: TopicFacts
) -> UndeletePlan:
    """Return a plan that renames the `-delete` directories in `chosen` to `-stray`, so that no broker deletes them
    (`LogManager.loadLog`, `addStrayLog`); `stack` closes its survey. Deleted segments of live logs stay, and so do old
    copies of finished moves between log directories; the plan says so. Without any of `chosen` the plan is empty.
    Raises `RecoveryRefused` if some are chosen and none of them can be renamed, and if renaming is not safe. Raises
    `StorageError` if a file cannot be read.
    """
    actions: list[RecoveryAction] = []
    held: list[PutBack] = []
    left: list[str] = []
    if chosen and all(remains.kind is RemainsKind.STRAY for remains in chosen):
        raise RecoveryRefused(f"{chosen[0].directory} is already one that no broker removes", reason="held")
    for remains in chosen:
        if remains.kind is RemainsKind.SEGMENTS:
            left.append(
                Sentence(
                    f"{remains.directory} is live, and a broker that starts removes its deleted segments at once: "
                    "restore them, or extract them with ",
                    Ask.UNDELETE_INTO,
                )
            )
            continue
        if remains.kind is RemainsKind.STRAY:
            continue
        moved_to = log_of_finished_move(whole, remains.directory, facts.roots)
        if moved_to is not None:
            left.append(f"{remains.directory} is an old copy left by a finished move; the log is {moved_to}")
            continue
        target = remains.directory.removesuffix(DirectoryState.DELETE) + DirectoryState.STRAY
        actions.append(RecoveryAction(kind=ActionKind.RENAME_DIRECTORY, path=remains.directory, target=target))
        end = remains.segments[0].base_offset if remains.last_offset is None else remains.last_offset + 1
        first = remains.segments[0].base_offset
        held.append(
            PutBack(
                directory=target,
                source=remains.directory,
                log_start_offset=first,
                log_end_offset=end,
                records=remains.records,
                topic_id=remains.topic_id,
            )
        )
    if left and not held:
        raise RecoveryRefused(left[0], reason="segments" if chosen[0].kind is RemainsKind.SEGMENTS else "moved")
    surveyed = stack.enter_context(survey(whole.root, only=frozenset(remains.directory for remains in chosen)))
    refuse_unsafe(surveyed, actions, surveyed.tree())
    ordered = marker_first(surveyed, actions)
    notes = tuple(_note_of_marker(ordered))
    return UndeletePlan(whole.root, surveyed, ordered, tuple(held), left=tuple(left), notes=notes, request=wanted)


def _note_of_marker(actions: Sequence[RecoveryAction]) -> Iterator[str]:
    """Yield one note if the actions remove the clean-shutdown marker; else nothing. It is removed so that no broker
    trusts it if the execution is interrupted.
    """
    if any(action.path == CLEAN_SHUTDOWN_FILE and action.kind is ActionKind.REMOVE for action in actions):
        yield (
            f"{CLEAN_SHUTDOWN_FILE} goes: the next start examines the logs as after a crash, and a plan before it "
            "lists what that rebuilds in other partitions too"
        )


def _target(remains: Remains, wanted: Undelete) -> str:
    if remains.kind is RemainsKind.SEGMENTS:
        if wanted.as_topic is not None:
            raise UsageError(
                Sentence(
                    f"{remains.directory} is live, and only segments of it are deleted: those go back into it, or are "
                    "taken out with ",
                    Ask.UNDELETE_INTO,
                    ", but do not go to another topic",
                )
            )
        return remains.directory
    if remains.name_is_cut and wanted.as_topic is None:
        raise RecoveryRefused(
            Sentence(
                f"the name of {remains.directory} is as long as such names can be, so that of its topic may be cut; "
                f"its topic id is {remains.topic_id or 'not known'}: give the topic's whole name with ",
                Ask.AS_TOPIC,
            ),
            reason="name",
        )
    return f"{wanted.target_topic}-{remains.partition}"


def _refuse_collisions(chosen: Sequence[Remains], target_of: Mapping[str, str]) -> None:
    seen: dict[str, str] = {}
    for remains in chosen:
        other = seen.setdefault(target_of[remains.directory], remains.directory)
        if other != remains.directory:
            raise RecoveryRefused(f"{other} and {remains.directory} would both become {target_of[remains.directory]}")


class _Making:
    """Builder of a log directory's tree with the restored data, and of the plan for it. Creating it, and its methods,
    raise `StorageError` if a file cannot be read.
    """

    def __init__(self, found: Survey, target_of: Mapping[str, str], wanted: Undelete, facts: TopicFacts) -> None:
        self.found = found
        self.target_of = target_of
        self.wanted = wanted
        self.facts = facts
        self.tree = found.tree()
        self.files = files_by_directory(found)
        self.points = Checkpoints.read(self.tree)
        self.taken: list[tuple[Remains, int, int]] = []
        """each with the first offset that must be there afterwards, and its number of records"""
        self.left: list[str] = []
        self.notes: list[str] = []
        self.strays: list[str] = []
        """restored directories whose topic id the cluster does not know"""

    def take(self, remains: Remains) -> None:
        """Restore one partition in the tree: rename its deleted segments, or its directory, which replaces an empty
        partition. The directory gets another topic id if `topic_id` determines one. The partition's recovery point
        becomes 0, and its entry in the log-start checkpoint is removed. Adds to `taken`, and may add to `left` and
        `notes`. Raises `RecoveryRefused` if no segment fits, if another partition with data is in the place, or if a
        broker would not accept the directory.
        """
        target = self.target_of[remains.directory]
        if remains.kind is RemainsKind.SEGMENTS:
            self.segments(remains)
        else:
            self.directory(remains, target)
        name = parse_partition_directory(target)
        if name is not None:
            self.points.recovery_points[name.topic, name.partition] = 0
            self.points.log_starts.pop((name.topic, name.partition), None)

    def segments(self, remains: Remains) -> None:
        live = live_log(self.found, remains.directory, self.files[remains.directory])
        fitting = fitting_segments(live, remains.segments)
        bases = {remains_segment.base_offset for remains_segment in fitting}
        left = [segment for segment in remains.segments if segment.base_offset not in bases]
        self.left += [
            why_not_fitting(live, remains_segment)
            or Sentence(f"{remains_segment.path} overlaps the one before it: extract it with ", Ask.UNDELETE_INTO)
            for remains_segment in left
        ]
        if not fitting:
            raise RecoveryRefused(Sentence.joined("; ", self.left[:3]), reason="overlap")
        for name in self.files[remains.directory]:
            parsed = parse_segment_file(name)
            if parsed is None or parsed.pending != DELETED or parsed.base_offset not in bases:
                continue
            path = f"{remains.directory}/{name}"
            if not self.tree.exists(path.removesuffix(DELETED)):
                self.tree.rename(path, path.removesuffix(DELETED))
        self.taken.append((remains, fitting[0].base_offset, sum(segment.records for segment in fitting)))

    def directory(self, remains: Remains, target: str) -> None:
        if remains.why_not is not None and target == f"{remains.topic}-{remains.partition}":
            raise RecoveryRefused(remains.why_not, reason="taken")
        not_given = why_elsewhere(remains, self.facts) if self.wanted.as_topic is None else None
        if not_given is not None:
            raise RecoveryRefused(not_given, reason="moved")
        topic_id = self.topic_id(remains, target)
        if target in self.tree.directories:
            self.refuse_taken(target)
            self.tree.remove_directory(target)
        self.tree.rename_directory(remains.directory, target)
        if topic_id is not None and topic_id != remains.topic_id:
            self.tree.write(f"{target}/{PARTITION_METADATA}", encode_partition_metadata(PartitionMetadata(0, topic_id)))
        self.taken.append((remains, remains.segments[0].base_offset, remains.records))
        self.note_epochs(remains, target)

    def give_way(self, name: str, place: str) -> None:
        """Remove the empty partition `name` from the tree, with its recovery point and log start offset, because its
        log is restored in the log directory `place`. Adds a note to `notes`.
        """
        self.tree.remove_directory(name)
        parsed = parse_partition_directory(name)
        if parsed is not None:
            self.points.recovery_points.pop((parsed.topic, parsed.partition), None)
            self.points.log_starts.pop((parsed.topic, parsed.partition), None)
        here = self.found.root
        self.notes.append(f"{name} in {here} is empty and goes to quarantine: its log is put back in {place}")

    def refuse_taken(self, target: str) -> None:
        logs = [name for name in self.files.get(target, ()) if FileKind.LOG.value in name]
        if any(DELETED in name or self.found.files[f"{target}/{name}"].size for name in logs):
            raise RecoveryRefused(f"{target} exists and holds its own data", reason="taken")

    # -- the cluster -------------------------------------------------------------------------------------------------

    def topic_id(self, remains: Remains, target: str) -> str | None:
        """Return the topic id that the restored directory `target` gets; None if unknown. The requested id is used, or
        else the id in the cluster's metadata. If both are unknown, it is the id in the empty directory at its place, or
        else the deleted data's own. May add to `notes`. If the cluster does not know the requested id, adds `target` to
        `strays`.

        Raises `RecoveryRefused` in three cases in which a broker would rename the directory to `-stray`:

        * the cluster's id of the topic is not the requested one
        * the cluster does not know the topic, and no id is requested
        * the cluster places the partition on other brokers
        """
        topic = target.rpartition("-")[0]
        known = self.facts.topic_ids.get(topic)
        standing = topic_id_or_none(self.tree, target)
        is_metadata_known = self.facts.source is not None and self.facts.problem is None
        if self.wanted.topic_id is not None and known not in (None, self.wanted.topic_id):
            raise RecoveryRefused(
                f"the cluster knows {topic} by the id {known}, not {self.wanted.topic_id}: a broker would rename the "
                "directory -stray",
                reason="topic_id",
            )
        chosen = self.wanted.topic_id or known or standing or remains.topic_id
        if is_metadata_known and known is None and self.wanted.topic_id is None:
            raise RecoveryRefused(
                Sentence(
                    f"the cluster does not know {topic}, so a broker would rename {target} -stray: create the topic "
                    "again with as many partitions, stop the broker and undelete then (",
                    Ask.HOLD,
                    " first, and no broker removes it meanwhile); or write it into a directory of its own with ",
                    Ask.UNDELETE_INTO,
                    "; or give it to another topic with ",
                    Ask.AS_TOPIC,
                ),
                reason="topic_id",
            )
        if is_metadata_known and known is not None and self.facts.strays([target]):
            raise RecoveryRefused(
                Sentence(
                    f"the cluster places {target} on other brokers, so this one would rename it -stray: write it into "
                    "a directory of its own with ",
                    Ask.UNDELETE_INTO,
                    ", and put it where it belongs",
                ),
                reason="topic_id",
            )
        if is_metadata_known and self.wanted.topic_id is not None and chosen not in self.facts.topic_ids.values():
            self.strays.append(target)
        if not is_metadata_known and chosen is not None and chosen == remains.topic_id and standing is None:
            self.notes.append(
                Sentence(
                    f"{target} keeps the topic id {chosen}: a broker whose cluster does not know it any more renames "
                    "the directory -stray; create the topic again then, and undelete with its ",
                    Ask.TOPIC_ID,
                )
            )
        return chosen

    def note_epochs(self, remains: Remains, target: str) -> None:
        highest = max(segment.highest_epoch for segment in remains.segments)
        if highest > 0:
            self.notes.append(
                f"{target} holds batches of leader epoch {highest}: until the partition's leader has been elected more "
                "often than that, consumers that check epochs may start over, and followers may truncate it"
            )

    # -- the result --------------------------------------------------------------------------------------------------

    def finish(self) -> UndeletePlan:
        """Recover the tree in mode safe, and return the plan with its actions and notes. Also writes the checkpoints
        into the tree. Raises `RecoveryRefused` if the recovery is refused or the actions are not safe. Raises it also
        if restored records would be removed, or a partition would have no topic id.
        """
        self.points.write(self.tree)
        request = Recovery(config=self.wanted.config, at=self.wanted.at, full=True, topics=self.facts)
        result = recover_safely(
            self.tree,
            settled(request, ()),
            topic_id=lambda topic: self.wanted.topic_id or self.facts.topic_ids.get(topic),
        )
        if result.refusals:
            raise RecoveryRefused(next(iter(result.refusals.values())), reason="mode")
        actions = difference(self.found, result.tree, frozenset({LOCK_FILE}))
        refuse_unsafe(self.found, actions, result.tree)
        put_back = tuple(self.put_back(remains, first, records, result) for remains, first, records in self.taken)
        ordered = _latest_first(actions)
        if self.strays:
            self.notes.append(
                f"the cluster knows no topic with the id {self.wanted.topic_id}: a start renames "
                f"{first_names(self.strays)} -stray, out of service"
            )
        notes = (*self.notes, *_note_of_marker(actions))
        return UndeletePlan(
            self.found.root, self.found, ordered, put_back, tuple(self.left), notes, request=self.wanted
        )

    def put_back(self, remains: Remains, first: int, records: int, result: SafeResult) -> PutBack:
        target = self.target_of[remains.directory]
        cut = result.cuts.get(target)
        if cut is not None and (cut.code not in _TAILS or remains.kind is RemainsKind.SEGMENTS):
            raise RecoveryRefused(
                Sentence(
                    f"{cut.path} is damaged at byte {cut.position} ({cut.code}: {cut.detail}): ",
                    "recover the partition first"
                    if remains.kind is RemainsKind.SEGMENTS
                    else Sentence("extract what is sound with ", Ask.UNDELETE_INTO),
                ),
                reason="damaged",
            )
        partition = result.partitions.get(target)
        if partition is None or partition.stray is not None:
            raise RecoveryRefused(
                Sentence(f"{target} has no topic id, so a broker would rename it -stray: name one with ", Ask.TOPIC_ID),
                reason="topic_id",
            )
        if partition.log_start_offset > first:
            raise RecoveryRefused(
                Sentence(
                    f"{target} would begin at {partition.log_start_offset} and not at {first}: extract it with ",
                    Ask.UNDELETE_INTO,
                ),
                reason="mode",
            )
        return PutBack(
            directory=target,
            source=remains.directory,
            log_start_offset=partition.log_start_offset,
            log_end_offset=partition.log_end_offset,
            records=records,
            topic_id=topic_id_or_none(result.tree, target),
        )


def _latest_first(actions: Sequence[RecoveryAction]) -> list[RecoveryAction]:
    """Return the actions with the renames of segments in reverse order, from last to first, so that an interrupted
    execution never leaves a gap in the log. Other actions keep their places.
    """
    renamed = iter([action for action in reversed(actions) if action.kind is ActionKind.RENAME])
    return [next(renamed) if action.kind is ActionKind.RENAME else action for action in actions]
