"""Mode safe: what a broker opens without changing a byte, with every sound batch that is there.

Where the broker's own result is sound and stable, that is the result.  Elsewhere the log is cut at the first batch that
is not sound, everything beside it is rebuilt as the broker would rebuild it, and the result is put before the model of
the broker again until that changes nothing any more.  A batch that stops the broker's start is where the log is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType

from kafkalog.codec.advice import Ask, Sentence
from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.findings import Finding, FindingCode
from kafkalog.codec.framing import BATCH_MAGIC
from kafkalog.codec.index_files import (
    ABORTED_TRANSACTION,
    ABORTED_TRANSACTION_VERSION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    each_slot,
)
from kafkalog.codec.model import BATCH, BatchHeader
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    CLUSTER_METADATA_TOPIC_ID,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    DirectoryState,
    FileKind,
    PartitionName,
    parse_segment_file,
    segment_file,
)
from kafkalog.codec.scan import Scanner
from kafkalog.log.storage.content import Content, Slice, join
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.changed_files import ChangedFiles, changed_files
from kafkalog.recovery.broker.manager import (
    BrokerResult,
    Outcome,
    PartitionResult,
    load_log_directory,
    read_checkpoints,
    read_topic_id,
)
from kafkalog.recovery.damage.salvage import salvage
from kafkalog.recovery.damage.soundness import (
    Cut,
    SoundLog,
    bytes_above,
    end_of_last_sound,
    log_segments,
    sound_prefix,
)
from kafkalog.recovery.decide.normalize import (
    Change,
    Checkpoints,
    clear_places,
    normalize_partition,
    normalize_root,
    partitions_of,
    topic_ids,
)
from kafkalog.recovery.facts.metadata_copies import OTHER_COPIES
from kafkalog.recovery.facts.rules import Rules
from kafkalog.recovery.facts.topic_facts import NO_FACTS
from kafkalog.recovery.facts.workers import Group, Workers, groups_of

__all__ = ["InOrder", "Recovered", "SafeRecovery", "SafeResult", "no_checks", "recover_safely"]

_CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)
_ROUNDS = 40
_STARTS = 4
_SHORTENED = 12
"""Times that a log is shortened to the last offset that was there before; then to the first."""
InOrder = Callable[[str, int], bool]
"""Whether checks find nothing in a partition directory, from the segment with this base offset on."""
_FULL_INDEX = ("full index", "full time index", "newPosition > limit", "no room for its last entry")
_LARGEST_INDEX = 1 << 30


def no_checks(_directory: str, _first: int) -> bool:
    """For those who want everything as a start after a crash leaves it: no partition stays as it is."""
    return False


@dataclass(slots=True)
class SafeResult:
    """The tree to leave, and what led to it."""

    tree: Tree
    partitions: list[PartitionResult] = field(default_factory=list)
    cuts: dict[str, Cut] = field(default_factory=dict)
    """partition directory -> where its log is cut"""
    changes: list[Change] = field(default_factory=list)
    """what was put out of the way, and why"""
    repeats: dict[str, Cut] = field(default_factory=dict)
    """partition directory -> the first batch that is kept although its offset was there before"""
    repairs: list[Finding] = field(default_factory=list)
    """bits that were turned over"""
    lost: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """partition directory -> offset ranges that are gone inside the log that is kept"""
    refusals: dict[str, str] = field(default_factory=dict)
    """partition directory -> why it is left as it is"""
    merged: frozenset[str] = frozenset()
    """partition directories that hold what several copies held"""

    def findings(self) -> list[Finding]:
        """The reasons of cuts and changes."""
        found = [
            Finding(cut.code, cut.severity, cut.position, None, cut.detail, cut.path) for cut in self.cuts.values()
        ]
        found += [
            Finding(each.code, each.severity, each.position, None, f"{each.detail}; it stays", each.path)
            for each in self.repeats.values()
        ]
        found += self.repairs
        found += [
            Finding(change.code, change.severity, None, None, change.reason, change.path) for change in self.changes
        ]
        return found


class _CannotSettleError(Exception):
    """A partition that no cut repairs."""

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal
        super().__init__(refusal)


class _PartitionRun:
    """One partition directory on its way to a state that the broker leaves alone."""

    def __init__(self, tree: Tree, directory: str, name: PartitionName, points: Checkpoints, rules: Rules) -> None:
        self.original = tree
        self.directory = directory
        self.name = name
        self.rules = rules
        self.key = (name.topic, name.partition)
        self.is_metadata = name.topic == CLUSTER_METADATA_TOPIC  # scanned from its start, whatever a checkpoint says
        self.recovery_point = 0 if self.is_metadata else max(points.recovery_points.get(self.key, 0), 0)
        self.given_log_start = 0 if self.is_metadata else max(points.log_starts.get(self.key, 0), 0)
        self.log_start = self.given_log_start
        self.start = self._first_scanned()
        self.cut: Cut | None = None
        self.repeat: Cut | None = None
        self.took_theirs = False
        self.trusted: BrokerResult | None = None
        """the broker's own result, where that keeps all that is sound and there is nothing else"""
        self.shortened = 0
        self.floor = Content()
        """logs of the broker's own result that are not to be lost"""
        self.lost: list[tuple[int, int]] = []
        self.repairs: list[Finding] = []

    @property
    def takes_something(self) -> bool:
        """Something of the log goes or becomes something else."""
        return bool(self.cut or self.repeat or self.repairs or self.lost)

    def _first_scanned(self) -> int:
        """Base of the segment that holds the recovery point, so that no odd value hides a segment."""
        bases = [base for base, _ in log_segments(self.original, self.directory)]
        if self.rules.examines_all or not bases:
            return 0
        return max((base for base in bases if base <= self.recovery_point), default=0)

    # -- the broker --------------------------------------------------------------------------------------------------

    def load(self, tree: Tree, *, recovery_point: int, log_start: int, clean: bool = False) -> BrokerResult:
        """What the broker makes of this partition alone."""
        copy = tree.copy()
        for name in _CHECKPOINTS:
            copy.delete(name)
        checkpoints = Checkpoints({self.key: recovery_point}, {self.key: log_start} if log_start else {})
        is_blocked = any(name in copy.links or name in copy.directories for name in _CHECKPOINTS)
        if is_blocked:
            checkpoints.write(copy)
        copy.delete(CLEAN_SHUTDOWN_FILE)
        if clean:
            copy.write(CLEAN_SHUTDOWN_FILE, b"")
        return load_log_directory(
            copy,
            settings=self.rules.settings,
            now_ms=self.rules.now_ms,
            unique=self.rules.unique,
            cluster_metadata=self.rules.cluster_metadata,
            checkpoints=None if is_blocked else (checkpoints.recovery_points, checkpoints.log_starts),
        )

    def is_stable(self, result: BrokerResult, log_start: int) -> bool:
        """Started on its result again, with everything to be scanned, the broker changes nothing."""
        directory = self.result_directory(result)
        again = load_again(self, result.tree, directory, log_start)
        return again is not None and holds_the_same(again.tree, result.tree, directory)

    def at_rest(self, result: BrokerResult, *, goes_back: bool) -> BrokerResult | None:
        """A result that no start of the broker changes, whatever it scans; None if this one does not come to that.

        From the recovery point that is left, an unclean start scans the last segment only.  Where offsets go back it
        finds an epoch there that the scan of all had dropped, because it began above the log's end.
        """
        for _ in range(_STARTS):
            if result.outcome != Outcome.LOADED or not self.is_stable(result, self.log_start):
                return None
            directory = self.result_directory(result)
            if not goes_back or directory != self.directory:
                return result
            end = self.result_of(result).log_end_offset
            again = self.load(result.tree, recovery_point=end, log_start=self.log_start)
            if again.outcome != Outcome.LOADED:
                return None
            if holds_the_same(again.tree, result.tree, directory):
                return result
            result = self.load(again.tree, recovery_point=self.start, log_start=self.log_start)
        return None

    # -- the way -----------------------------------------------------------------------------------------------------

    def run(self, clean: bool, untouched: Tree, known: BrokerResult | None = None) -> BrokerResult:
        """The broker's own result on the untouched directory where that will do, else ours.

        `known` is that result where it is known already.
        """
        if self.rules.rebuild_indexes:
            return self.rebuilt()
        if has_unknown_versions(self.original, self.directory):
            self.start = 0
            return self.settle(self.above_log_start(self.keepable(sound_prefix(self.original, self.directory))))
        theirs = known or self.load(
            untouched, recovery_point=self.recovery_point, log_start=self.log_start, clean=clean
        )
        if theirs.outcome == Outcome.LOADED:
            sound = sound_prefix(untouched, self.directory, start=self.start)
            kept = self.keeps(theirs, untouched, sound) and self.keepable(sound) is sound
            kept = kept and not self.goes_on_above_log_start(sound)
            if kept and clean and sound.cut is None and sound.repeat is None:
                self.trusted = theirs
            rest = None
            if kept:
                left = self.sound_part_of(theirs, untouched, sound)
                rest = self.at_rest(theirs, goes_back=left.cut is not None or left.repeat is not None)
            if rest is not None and (rest is theirs or self.keeps(rest, untouched, sound)):
                self.cut, self.repeat = (None if left.ends_at_rest else sound.cut), left.repeat
                self.took_theirs = True
                return rest
            if sound.repeat is not None:
                self.floor = self.reached(theirs)
        sound = self.keepable(sound_prefix(self.original, self.directory, start=self.start))
        return self.settle(self.above_log_start(sound))

    def sound_part_of(self, theirs: BrokerResult, before: Tree, sound: SoundLog) -> SoundLog:
        """The sound part of the broker's own result; `sound` is that of the directory before."""
        directory = self.result_directory(theirs)
        if directory == self.directory:
            segments = log_segments(before, directory)
            unchanged = all(theirs.tree.files.get(path) == before.files[path] for _base, path in segments)
            if unchanged and log_segments(theirs.tree, directory) == segments:
                return sound
        return sound_prefix(theirs.tree, directory, start=self.start)

    def goes_on_above_log_start(self, sound: SoundLog) -> bool:
        """More is to be kept than the sound part."""
        found = self.above_log_start(sound)
        return found is not sound and bool(found.sizes)

    def above_log_start(self, sound: SoundLog) -> SoundLog:
        """Damage below the log start offset takes nothing: no record there counts.

        Where all of it lies there the log goes on after it.  Where it reaches above, and the log ended above too, a
        broker would begin a new log at the log start offset (`LogLoader.load`), so that no offset that somebody has
        read is given to another record.
        """
        ends_below = max(sound.end_offset or 0, sound.log_end_offset) < self.log_start
        if sound.cut is None or self.rules.resumes or not ends_below:
            return sound
        found = salvage(self.original, self.directory, start=self.start, repair=self.rules.repair_bits)
        reached = max(found.end_offset or 0, self.claimed_end(sound.cut))
        if reached <= self.log_start:
            return sound  # nothing there tells that the log reached so far: its records may be all there is
        if all(each is not None and each <= self.log_start for each in found.resumed):
            self.repairs = found.repairs
            return found
        return SoundLog(cut=sound.cut)

    def claimed_end(self, cut: Cut) -> int:
        """After the last offset of a damaged batch by its header; 0 if that makes no sense."""
        data = self.original.source(cut.path).read(cut.position, BATCH.size)
        if len(data) < BATCH.size:
            return 0
        header = BatchHeader(*BATCH.struct.unpack(data))
        makes_sense = header.magic == BATCH_MAGIC and 0 <= header.base_offset <= header.last_offset
        return header.next_offset if makes_sense else 0

    def rebuilt(self) -> BrokerResult:
        """All indexes rebuilt; a log that is not sound throughout is not for this."""
        sound = sound_prefix(self.original, self.directory)
        if sound.cut is not None:
            raise _CannotSettleError(
                f"{sound.cut.path} is damaged at byte {sound.cut.position} ({sound.cut.code}: {sound.cut.detail}): "
                "recover the log first"
            )
        return self.settle(sound)

    def keepable(self, sound: SoundLog) -> SoundLog:
        """The sound part, and what may be salvaged after it."""
        rules = self.rules
        if rules.repair_bits is None and (sound.cut is None or not rules.resumes):
            return sound
        if sound.cut is None:
            found = salvage(self.original, self.directory, start=self.start, repair=rules.repair_bits, resume=False)
            if not found.repairs or sum(found.sizes.values()) < sum(sound.sizes.values()):
                return sound
            self.lost, self.repairs = found.lost, found.repairs
            return found
        found = salvage(self.original, self.directory, start=self.start, repair=rules.repair_bits, resume=rules.resumes)
        if not rules.resumes and sum(found.sizes.values()) < sum(sound.sizes.values()):
            return sound  # it stopped at an older offset, which later ones go on after
        if self.is_metadata and rules.resumes:
            self.refuse_gap(found, sound.cut)
        self.lost, self.repairs = found.lost, found.repairs
        return found

    def refuse_gap(self, found: SoundLog, cut: Cut) -> None:
        """Each record of the metadata changes what those before it have made: a log with a gap says nothing certain."""
        up_to = salvage(self.original, self.directory, start=self.start, repair=self.rules.repair_bits, resume=False)
        if sum(found.sizes.values()) > sum(up_to.sizes.values()):
            raise _CannotSettleError(
                f"{cut.path} is damaged at byte {cut.position}, and mode salvage would leave a gap there, which a "
                f"metadata log must not have; {OTHER_COPIES}"
            )

    def result_of(self, result: BrokerResult) -> PartitionResult:
        """What was made of this directory (its `-future` copy may be beside it)."""
        return next(partition for partition in result.partitions if partition.name == self.directory)

    def result_directory(self, result: BrokerResult) -> str:
        """Its name afterwards."""
        return self.result_of(result).stray or self.directory

    def keeps(self, theirs: BrokerResult, before: Tree, sound: SoundLog) -> bool:
        """The broker's logs are sound throughout and hold all that is sound, if only in another order (after a split).

        And the log ends after all of it: what lies above a broker's log end is there and still out of reach.  That is
        put up with only where ending the log sooner would take more.
        """
        directory = self.result_directory(theirs)
        kept, ours = logs(theirs.tree, directory), sound_logs(before, sound)
        end = self.result_of(theirs).log_end_offset
        if kept == ours:
            return sound.repeat is None or end == sound.log_end_offset
        walked = sound_prefix(theirs.tree, directory, start=self.start)
        if not covers(kept, ours) or (walked.cut is not None and not walked.ends_at_rest):
            return False
        if walked.ends_at_rest:
            hidden = bytes_above(theirs.tree, directory, end)
            return hidden < kept.size - ours.size and can_go_on(theirs.tree, directory, end)
        return walked.repeat is None or end == walked.log_end_offset

    def reached(self, theirs: BrokerResult) -> Content:
        """The logs of the broker's result if it is stable and the log ends after all of it, else nothing."""
        directory = self.result_directory(theirs)
        walked = sound_prefix(theirs.tree, directory, start=self.start)
        ends = walked.cut is None and walked.log_end_offset == self.result_of(theirs).log_end_offset
        return logs(theirs.tree, directory) if ends and self.is_stable(theirs, self.log_start) else Content()

    def settle(self, sound: SoundLog) -> BrokerResult:
        """Cut, rebuild, and let the broker look until it changes nothing."""
        self.check_topic_id()
        tree = self.kept(sound)
        for _ in range(_ROUNDS):
            self.log_start = min(self.log_start, last_start(tree, self.directory, self.log_start))
            result = self.load(tree, recovery_point=self.start, log_start=self.log_start)
            if sound.repeat is not None and not is_index_full(result):
                until = self.in_the_way(result, sound)
                if until is not None:
                    sound = self.shorter(sound, until)
                    tree = self.kept(sound)
                    continue
            if result.outcome != Outcome.LOADED:
                tree = self.cut_at_failure(tree, result)
                continue
            rest = self.at_rest(result, goes_back=sound.repeat is not None)
            if rest is not None:
                return rest
            tree = self.as_started_again(result)
        raise _CannotSettleError(f"{self.directory} never reaches a stable state: every start of Kafka would change it")

    def in_the_way(self, result: BrokerResult, sound: SoundLog) -> Cut | None:
        """The repeated offset because of which the broker would not keep or not serve all of it, None if it would."""
        if result.outcome == Outcome.LOADED:
            partition = self.result_of(result)
            if partition.emptied is not None:
                detail = "an older offset that a Kafka index would not accept: Kafka would empty the segment"
                return Cut(*partition.emptied, FindingCode.OFFSET_NOT_INCREASING, detail)
            if partition.log_end_offset != sound.log_end_offset:
                return sound.last_repeat
            for until in hiding(result.tree, self.result_directory(result)):
                found = sound_prefix(self.original, self.directory, start=self.start, until=until)
                if covers(sound_logs(self.original, found), self.floor):
                    return until
            return None
        error = result.error
        if error is None or error.position is None or error.segment_path is None:
            return sound.last_repeat
        detail = f"Kafka does not start on this batch: {result.exception}: {result.message}"
        return Cut(error.segment_path, error.position, FindingCode.BROKER_REFUSES, detail)

    def shorter(self, sound: SoundLog, until: Cut) -> SoundLog:
        """The sound log without what is in the way; in any case with one repeated offset less."""
        self.shortened += 1
        last = sound.last_repeat if self.shortened < _SHORTENED else sound.repeat
        size = sum(sound.sizes.values())
        for each in (until, last) if last is sound.last_repeat else (last,):
            found = sound_prefix(self.original, self.directory, start=self.start, until=each)
            if sum(found.sizes.values()) < size:
                return found
        return sound_prefix(self.original, self.directory, start=self.start, until=sound.repeat)

    def as_started_again(self, result: BrokerResult) -> Tree:
        """What the next start makes of a result, under the directory's own name.

        A partition that becomes stray loses what of its leader epochs was not written yet; the next start writes it.
        """
        directory = self.result_directory(result)
        if directory == self.directory:
            return result.tree
        again = load_again(self, result.tree, directory, self.log_start)
        if again is None:
            raise _CannotSettleError(f"Kafka would not start on {directory}, which is no longer its own")
        tree = self.original.copy()
        for name in tree.all_names(self.directory):
            tree.delete(f"{self.directory}/{name}")
        for name in again.tree.all_names(directory):
            tree.files[f"{self.directory}/{name}"] = again.tree.files[f"{directory}/{name}"]
        return tree

    def check_topic_id(self) -> None:
        """Recovery never invents a topic id."""
        try:
            read_topic_id(self.original, self.directory)
        except JavaError as error:
            unknown = (
                f"the topic id of {self.directory} cannot be read ({error}), and neither another partition of the "
                "topic in this directory nor the metadata beside it knows it; name it with "
            )
            raise _CannotSettleError(Sentence(unknown, Ask.TOPIC_ID)) from None

    def kept(self, sound: SoundLog) -> Tree:
        """The directory with the sound part of its logs."""
        tree = self.original.copy()
        self.cut, self.repeat = sound.cut, sound.repeat
        self.keep(tree, sound)
        return tree

    def keep(self, tree: Tree, sound: SoundLog) -> None:
        """Leave the sound part of the logs; indexes of what is scanned are to be rebuilt."""
        gone: set[int] = set()
        for base, path in log_segments(tree, self.directory):
            size = sound.sizes.get(path)
            if path in sound.contents:
                tree.files[path] = sound.contents[path]
                continue
            if size is None:
                gone.add(base)
                continue
            if size < tree.files[path].size:
                tree.files[path] = tree.files[path].slice(0, size)
        remove_segments(tree, self.directory, gone)
        bases = {base for base, _path in log_segments(tree, self.directory)}
        reset_indexes(tree, self.directory, {base for base in bases if base >= self.start})

    def cut_at_failure(self, tree: Tree, result: BrokerResult) -> Tree:
        """Cut at the batch that the broker fails at; where it is none, rebuild everything beside the logs."""
        message = result.message or ""
        if is_index_full(result):
            raise _CannotSettleError(self.smallest_index(tree))
        error = result.error
        path = None if error is None else error.segment_path
        if error is None or error.position is None or path is None or path not in tree.files:
            if self.start > 0:
                self.start = 0
                return self.kept(sound_prefix(self.original, self.directory))
            raise _CannotSettleError(f"Kafka would not start: {result.exception}: {message}")
        detail = f"Kafka does not start on this batch: {result.exception}: {message}"
        self.cut = Cut(path, error.position, FindingCode.BROKER_REFUSES, detail)
        tree.files[path] = tree.files[path].slice(0, error.position)
        base = parse_base(path)
        bases = {other for other, _ in log_segments(tree, self.directory)}
        remove_segments(tree, self.directory, {later for later in bases if later > base})
        reset_indexes(tree, self.directory, bases & {base})
        return tree

    def smallest_index(self, tree: Tree) -> str:
        """The sentence that names the setting which would do."""
        settings = self.rules.settings(self.name.topic)
        size = settings.segment_index_bytes
        while size < _LARGEST_INDEX:
            size = max(size * 2, 24)
            if self.loads_with(tree, size):
                low, high = size // 2, size
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (low, middle) if self.loads_with(tree, middle) else (middle, high)
                return Sentence(
                    f"the indexes of {self.directory} do not fit into segment.index.bytes="
                    f"{settings.segment_index_bytes}: Kafka would not start; the smallest value that works is {high} (",
                    Ask.CONFIG,
                    f" segment.index.bytes={high}, and the same for the topic or broker)",
                )
        return f"the indexes of {self.directory} do not fit into any segment.index.bytes"

    def loads_with(self, tree: Tree, size: int) -> bool:
        given = self.rules.settings(self.name.topic)
        tried = replace(given, segment_index_bytes=size)
        rules = replace(self.rules, config=tried.as_names(), topics=NO_FACTS)
        run = _PartitionRun(self.original, self.directory, self.name, Checkpoints({}, {}), rules)
        first = run.load(tree, recovery_point=0, log_start=self.log_start)
        return first.outcome == Outcome.LOADED and run.is_stable(first, self.log_start)


def is_index_full(result: BrokerResult) -> bool:
    """The broker does not start because the indexes do not fit into the size that is set."""
    return result.outcome != Outcome.LOADED and any(text in (result.message or "") for text in _FULL_INDEX)


def load_again(run: _PartitionRun, tree: Tree, directory: str, log_start: int) -> BrokerResult | None:
    """The broker on its own result, unclean and from the first segment; None if it does not start."""
    if directory != run.directory:  # a stray directory is another one's name now
        tree = tree.copy()
        tree.renamed_directories = []
    result = run.load(tree, recovery_point=run.start, log_start=log_start)
    return result if result.outcome == Outcome.LOADED else None


def holds_the_same(tree: Tree, other: Tree, directory: str) -> bool:
    """A directory holds the same in both trees: logs by what they are made of, other files by their bytes."""
    names = tree.names(directory)
    if names != other.names(directory):
        return False
    for path in (f"{directory}/{name}" for name in names):
        if path.endswith(FileKind.LOG.value):
            if tree.files[path] != other.files[path]:
                return False
        elif not tree.is_same(path, other, path):
            return False
    return True


def logs(tree: Tree, directory: str) -> Content:
    """All logs of a partition after each other."""
    return join(part for _base, path in log_segments(tree, directory) for part in tree.files[path].parts)


def sound_logs(before: Tree, sound: SoundLog) -> Content:
    """What is sound of them."""
    return join(part for path, size in sorted(sound.sizes.items()) for part in before.files[path].slice(0, size).parts)


def covers(kept: Content, wanted: Content) -> bool:
    """All bytes of original files that one content has are in the other, in whatever order."""
    there: dict[str, list[tuple[int, int]]] = {}
    for part in kept.parts:
        if isinstance(part, Slice):
            there.setdefault(part.origin, []).append((part.start, part.start + part.length))
    for spans in there.values():
        spans.sort()
    return all(
        isinstance(part, Slice) and _spans(there.get(part.origin, []), part.start, part.start + part.length)
        for part in wanted.parts
    )


def _spans(spans: list[tuple[int, int]], start: int, end: int) -> bool:
    for low, high in spans:
        if low > start:
            break
        start = max(start, high)
    return start >= end


def hiding(tree: Tree, directory: str) -> Iterator[Cut]:
    """Batches with an index entry that lie below offsets before them: who asks for those is led past them."""
    for base, path in log_segments(tree, directory):
        index = f"{directory}/{segment_file(base, FileKind.OFFSET_INDEX)}"
        indexed = {position for _relative, position in entries_of(tree, index, OFFSET_ENTRY)}
        highest = -1
        for batch in Scanner(tree.source(path), check_crc=False) if indexed else ():
            if batch.last_offset < highest and batch.position in indexed:
                detail = f"offset {batch.last_offset} after {highest}, to which a Kafka index would lead"
                yield Cut(path, batch.position, FindingCode.OFFSET_NOT_INCREASING, detail)
            highest = max(highest, batch.last_offset)


def entries_of(tree: Tree, path: str, layout: FixedLayout) -> Iterator[tuple[int, ...]]:
    """The slots of an index, if it is there; of those in a hole, which are all zeros, only the first."""
    if path in tree.files:
        for _number, fields in each_slot(tree.source(path), layout, pass_holes=True):
            yield fields


def has_unknown_versions(tree: Tree, directory: str) -> bool:
    """Whether an aborted transaction is listed in a version that does not exist.

    Up to 4.3 Kafka looks at the first byte of the version, and starts on some of them; 4.4 starts on none.
    """
    listed = (name for name in tree.names(directory) if name.endswith(FileKind.TRANSACTION_INDEX.value))
    return any(
        fields[0] != ABORTED_TRANSACTION_VERSION
        for name in listed
        if parse_segment_file(name) is not None
        for fields in entries_of(tree, f"{directory}/{name}", ABORTED_TRANSACTION)
    )


def can_go_on(tree: Tree, directory: str, end_offset: int) -> bool:
    """The active segment's indexes hold nothing from the log's end on: else no append that is indexed succeeds."""
    base, _path = log_segments(tree, directory)[-1]
    for kind, layout in ((FileKind.OFFSET_INDEX, OFFSET_ENTRY), (FileKind.TIME_INDEX, TIME_ENTRY)):
        path = f"{directory}/{segment_file(base, kind)}"
        relative = 0 if kind is FileKind.OFFSET_INDEX else 1
        if any(base + entry[relative] >= end_offset for entry in entries_of(tree, path, layout)):
            return False
    return True


def parse_base(path: str) -> int:
    """Base offset from a log's path."""
    parsed = parse_segment_file(path.rpartition("/")[2])
    if parsed is None:
        raise AssertionError(path)
    return parsed.base_offset


def remove_segments(tree: Tree, directory: str, bases: Set[int]) -> None:
    """Remove the files of segments, their snapshots too."""
    for name in tree.names(directory) if bases else ():
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.base_offset in bases and not parsed.pending:
            tree.delete(f"{directory}/{name}")


def reset_indexes(tree: Tree, directory: str, bases: Set[int]) -> None:
    """Empty the indexes of segments: the broker then rebuilds them when their turn comes, and not while opening."""
    for name in tree.names(directory) if bases else ():
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.base_offset in bases and parsed.kind is FileKind.TRANSACTION_INDEX:
            tree.write(f"{directory}/{name}", b"")
    for base in sorted(bases):
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            tree.write(f"{directory}/{segment_file(base, kind)}", b"")


def last_start(tree: Tree, directory: str, log_start: int) -> int:
    """The largest log start offset with which a broker keeps the log: the offset of its last record.

    One at the log's end would do too, but makes the leader epochs come and go with every start.
    """
    segments = log_segments(tree, directory)
    if not segments:
        return log_start
    end = end_of_last_sound(tree, directory)
    return segments[-1][0] if end is None else max(end - 1, segments[0][0])


class _Known:
    """What the broker made of partitions when it was started on several, where each alone gives the same."""

    def __init__(self, tree: Tree, changes: Sequence[Change]) -> None:
        checkpoints = read_checkpoints(tree)
        self._is_any = not changes and checkpoints is not None and CLEAN_SHUTDOWN_FILE not in tree.directories
        self._points, self._starts = checkpoints or ({}, {})
        self._forecast: BrokerResult | None = None
        self._of: dict[str, PartitionResult] = {}

    def take(self, forecast: BrokerResult | None) -> None:
        """What it made of them is this."""
        self._forecast = forecast
        self._of = {}
        if self._is_any and forecast is not None and forecast.outcome == Outcome.LOADED:
            self._of = {each.name: each for each in forecast.partitions if each.stray is None}

    def result(self, run: _PartitionRun, before: Tree) -> BrokerResult | None:
        """That of the only directory in a tree; None where it is to be loaded."""
        found = self._of.get(run.directory)
        if self._forecast is None or found is None or run.name.state is not DirectoryState.LIVE:
            return None
        if run.name.topic == CLUSTER_METADATA_TOPIC or before.subdirectories() != [run.directory]:
            return None
        if (self._points.get(run.key, 0), self._starts.get(run.key, 0)) != (run.recovery_point, run.log_start):
            return None
        tree = self._forecast.tree.part(run.directory)
        return BrokerResult(Outcome.LOADED, tree, self._forecast.clean, partitions=[found])


@dataclass(slots=True)
class Recovered:
    """What became of one partition directory."""

    directory: str
    name: PartitionName
    refusal: str | None = None
    changes: list[Change] = field(default_factory=list)
    cut: Cut | None = None
    repeat: Cut | None = None
    repairs: list[Finding] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    result: PartitionResult | None = None
    files: ChangedFiles = field(default_factory=ChangedFiles)
    removed_directories: list[str] = field(default_factory=list)
    """inside it"""
    log_start: int = 0
    is_whole: bool = False
    """all of its log was examined"""

    @property
    def new_directory(self) -> str:
        """Its name afterwards."""
        return (self.result.stray if self.result is not None else None) or self.directory


class SafeRecovery:
    """Safe recovery of a log directory by settled rules, one topic-partition at a time.

    `topic_id` tells the id of a topic whose partitions have lost it; `is_in_order` whether a partition directory that
    was closed in order is to stay as it is; `declined` why others are, whatever is in them.
    """

    def __init__(
        self,
        tree: Tree,
        rules: Rules,
        topic_id: Callable[[str], str | None],
        is_in_order: InOrder = no_checks,
        declined: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._rules = rules
        self._declined = declined
        self._is_in_order = is_in_order
        self._result = SafeResult(tree.copy())
        self._is_clean = CLEAN_SHUTDOWN_FILE in tree.files
        self._result.changes += normalize_root(self._result.tree)
        self._known = _Known(tree, self._result.changes)
        self._points = Checkpoints.read(self._result.tree)
        self._names = dict(partitions_of(self._result.tree, rules.cluster_metadata))
        self._donors = cache(lambda: topic_ids(self._result.tree))  # seldom asked for
        self._topic_id = topic_id
        self.groups = groups_of(list(self._names))

    @property
    def takes_the_root_as_it_is(self) -> bool:
        """Nothing in the log directory itself had to be put out of the way."""
        return not self._result.changes

    def knows(self, forecast: BrokerResult | None) -> None:
        """What the broker makes of the same partitions by the same rules."""
        self._known.take(forecast)

    def recover(self, group: Group) -> list[Recovered]:
        """The directories of one topic-partition; the tree stays as it is."""
        own = self._result.tree.part(*group)
        outcomes = []
        for directory in group:
            if directory in self._names:
                outcomes.append(self._recover(own, directory))
                if len(group) > 1:
                    _put(own, outcomes[-1])
        return outcomes

    def part(self, outcomes: Sequence[Recovered]) -> SafeResult:
        """The result of one topic-partition alone, its checkpoints apart."""
        result = SafeResult(self._result.tree.part(*(each.directory for each in outcomes)))
        for outcome in outcomes:
            _take_over(result, outcome, Checkpoints({}, {}))
        return result

    def whole(self, recovered: Iterable[Sequence[Recovered]]) -> SafeResult:
        """The result of all, from those of all topic-partitions."""
        result, points = self._result, self._points
        found = {outcome.directory: outcome for outcomes in recovered for outcome in outcomes}
        after = Checkpoints(dict(points.recovery_points), dict(points.log_starts))
        for directory in self._names:
            _take_over(result, found[directory], after)
        after.write(result.tree)
        return result

    def _id_of(self, topic: str) -> str | None:
        """The id of a topic by its other partitions, or as the caller knows it; that of the metadata never changes."""
        if topic == CLUSTER_METADATA_TOPIC:
            return CLUSTER_METADATA_TOPIC_ID
        return self._donors().get(topic) or self._topic_id(topic)

    def _recover(self, tree: Tree, directory: str) -> Recovered:
        """One directory, in a tree of its own with those of the same topic-partition."""
        name = self._names[directory]
        if directory in self._declined:
            return Recovered(directory, name, self._declined[directory])
        directories = set(tree.directories)
        before = tree.part(directory)
        cleared = clear_places(tree, directory)
        left = set(tree.directories)
        untouched = _with_copy(tree, directory, name)
        changes = normalize_partition(tree, directory, lambda: self._id_of(name.topic))
        run = _PartitionRun(_with_copy(tree, directory, name), directory, name, self._points, self._rules)
        try:
            loaded = run.run(self._is_clean, untouched, None if cleared else self._known.result(run, untouched))
        except _CannotSettleError as error:
            return self._as_it_is(run) or Recovered(directory, name, error.refusal)
        new = run.result_directory(loaded)
        files = changed_files(before, directory, loaded.tree, new)
        stays = None if cleared or not (files or changes) else self._as_it_is(run)
        return stays or Recovered(
            directory,
            name,
            changes=cleared if run.took_theirs else [*cleared, *changes],
            cut=run.cut,
            repeat=run.repeat,
            repairs=run.repairs,
            lost=run.lost,
            result=run.result_of(loaded),
            removed_directories=sorted(directories - (left if run.took_theirs else set(tree.directories))),
            files=files,
            log_start=run.log_start,
            is_whole=run.start <= min((base for base, _ in log_segments(loaded.tree, new)), default=0),
        )

    def _as_it_is(self, run: _PartitionRun) -> Recovered | None:
        """A partition that a broker closed in order, trusts and takes nothing from; and no check finds anything in it.

        None if it is not such a one, or more than that is wanted.
        """
        if run.trusted is None or run.takes_something or self._rules.full or run.is_metadata:
            return None
        if run.result_directory(run.trusted) != run.directory or not self._is_in_order(run.directory, run.start):
            return None
        return Recovered(run.directory, run.name, result=run.result_of(run.trusted), log_start=run.given_log_start)


def recover_safely(
    tree: Tree,
    rules: Rules,
    *,
    topic_id: Callable[[str], str | None] = lambda topic: None,
    is_in_order: InOrder = no_checks,
    workers: Workers | None = None,
    forecast: BrokerResult | None = None,
    declined: Mapping[str, str] = MappingProxyType({}),
) -> SafeResult:
    """The tree that safe recovery leaves of a log directory, by rules that are settled.

    With their `repair_bits` single bits are corrected if proven so well, in mode `salvage` a log goes on after
    damage, and `rebuild_indexes` rebuilds all indexes of sound logs and cuts nothing.  `topic_id`, `is_in_order` and
    `declined` are those of `SafeRecovery`; `forecast` is what the broker makes of the same tree by the same rules.
    """
    recovery = SafeRecovery(tree, rules, topic_id, is_in_order, declined)
    recovery.knows(forecast)
    return recovery.whole((workers or Workers()).each(recovery.groups, recovery.recover))


def _with_copy(tree: Tree, directory: str, name: PartitionName) -> Tree:
    """The partition's own tree; with its `-future` copy, beside which a broker does not close it."""
    if name.state is not DirectoryState.LIVE:
        return tree.part(directory)
    same = (name.topic, name.partition)
    futures = [
        other
        for other, parsed in partitions_of(tree)
        if (parsed.topic, parsed.partition) == same and parsed.state is DirectoryState.FUTURE
    ]
    return tree.part(directory, *futures)


def _put(tree: Tree, outcome: Recovered) -> None:
    """Put a partition's result into a tree."""
    if outcome.result is None:
        return
    for path in outcome.removed_directories:
        tree.remove_directory(path)
    outcome.files.put(tree, outcome.directory)
    if outcome.new_directory != outcome.directory:
        tree.rename_directory(outcome.directory, outcome.new_directory)


def _take_over(result: SafeResult, outcome: Recovered, after: Checkpoints) -> None:
    """Put a partition's result into the whole, and say in the checkpoints what is known now."""
    if outcome.result is None:
        result.refusals[outcome.directory] = outcome.refusal or "it cannot be recovered"
        return
    _put(result.tree, outcome)
    result.changes += outcome.changes
    result.repairs += outcome.repairs
    if outcome.cut is not None:
        result.cuts[outcome.directory] = outcome.cut
    if outcome.repeat is not None:
        result.repeats[outcome.directory] = outcome.repeat
    if outcome.lost:
        result.lost[outcome.directory] = outcome.lost
    partition, name = outcome.result, outcome.name
    result.partitions.append(partition)
    if name.state.value or name.topic == CLUSTER_METADATA_TOPIC:
        return
    key = (name.topic, name.partition)
    if partition.stray is not None:  # under its new name too it is this topic-partition to the checkpoint
        if key in after.log_starts:
            after.log_starts[key] = outcome.log_start
        return
    if outcome.is_whole:
        after.recovery_points[key] = partition.log_end_offset
    elif key in after.recovery_points:
        after.recovery_points[key] = min(after.recovery_points[key], partition.log_end_offset)
    if key in after.log_starts:
        after.log_starts[key] = outcome.log_start
