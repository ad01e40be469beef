"""Recover one partition directory to a state that a broker's start leaves unchanged.

If the result of the broker's own start is sound and stable, it is used. Otherwise the log is truncated at the first
batch that is not sound, all other files are rebuilt as a broker would rebuild them, and the model of the broker is
started on the result until it changes nothing. A log is also truncated at a batch that stops the broker's start.
"""

from __future__ import annotations

from msgspec import structs

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.files.text import encode_leader_epochs
from kafkalog.codec.model import BATCH, BatchHeader
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    PartitionName,
)  # fmt: skip
from kafkalog.codec.plain.insides import Insides, look_inside
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.framing import BATCH_MAGIC
from kafkalog.log.storage.content import Content
from kafkalog.log.storage.java import FullIndexError, JavaError, as_printed
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import (
    BrokerResult,
    LoadedPartition,
    load_log_directory,
    read_topic_id,
    topic_id_or_none,
)
from kafkalog.recovery.damage.census import identity
from kafkalog.recovery.damage.held_twice import hiding_segments, sizes_without_copies
from kafkalog.recovery.damage.kept_bytes import KeptBytes
from kafkalog.recovery.damage.salvage import salvage
from kafkalog.recovery.damage.soundness import Cut, SoundLog, bytes_above, sound_prefix
from kafkalog.recovery.facts.metadata_copies import OTHER_COPIES
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.facts.topic_facts import NO_FACTS
from kafkalog.recovery.safe.ended_transactions import are_known_to_have_ended, opens_as, states_behind
from kafkalog.recovery.safe.leader_epochs import true_epochs
from kafkalog.recovery.safe.log_contents import (
    can_go_on,
    has_unknown_versions,
    hiding,
    holds_the_same,
    last_start,
    logs,
    parse_base,
    remove_segments,
    reset_indexes,
    sound_logs,
)
from kafkalog.recovery.safe.normalize import Checkpoints

__all__ = ["CannotSettleError", "PartitionRecovery"]

_CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)
_ROUNDS = 40
_STARTS = 4
_SHORTENED = 12
"""Number of times that a log is shortened at its last repeated offset; after that at the first one."""
_LARGEST_INDEX = 1 << 30


class CannotSettleError(Exception):
    """Raised for a partition that no truncation repairs. `refusal` is the reason, as a sentence."""

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal
        super().__init__(refusal)


class PartitionRecovery:
    """Recovery of one partition directory to a state that a broker's start leaves unchanged. Works on trees in memory;
    methods raise `StorageError` if an original file cannot be read. Segments are examined from the one with base offset
    `start` on; 0 means all.

    Some methods set fields that describe the result: `log_start` (log start offset), `cut` (place from which the logs
    are truncated), `repeat` (first batch that is kept although its offsets are repeated), `lost` (offset ranges that
    are left out) and `repairs` (findings about corrected bits).
    """

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
        """the broker's own result after a clean stop, if it keeps all that is sound and nothing else is there; else
        None
        """
        self.shortened = 0
        self.floor = Content()
        """logs of the broker's own result that must not be lost"""
        self.lost: list[tuple[int, int]] = []
        self.repairs: list[Finding] = []

    @property
    def takes_something(self) -> bool:
        """Whether bytes of the log are removed or changed."""
        return bool(self.cut or self.repeat or self.repairs or self.lost)

    def _first_scanned(self) -> int:
        """Return the base offset of the segment that holds the recovery point; 0 if all segments are examined. Invalid
        checkpoint values hide no segment.
        """
        bases = [base for base, _ in self.original.logs(self.directory)]
        if self.rules.examines_all or not bases:
            return 0
        return max((base for base in bases if base <= self.recovery_point), default=0)

    # -- the broker --------------------------------------------------------------------------------------------------

    def load(self, tree: Tree, recovery_point: int, *, clean: bool = False) -> BrokerResult:
        """Start the model of the broker on a copy of `tree`, and return the result. The checkpoints are replaced: they
        have only this partition's `recovery_point` and `log_start`. There is a clean-shutdown marker only with `clean`.
        If the broker fails to start, the result says so; nothing is raised for that.
        """
        copy = tree.copy()
        for name in _CHECKPOINTS:
            copy.delete(name)
        checkpoints = Checkpoints({self.key: recovery_point}, {self.key: self.log_start} if self.log_start else {})
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
            has_metadata=self.rules.has_metadata,
        )

    def load_again(self, tree: Tree, directory: str) -> BrokerResult | None:
        """Start the model of the broker on the tree that a start left, without a clean-shutdown marker and from the
        recovery point `start`; return the result, None if it does not load. `directory` is the partition's name in
        `tree`, which differs from the original if it became stray.
        """
        if directory != self.directory:  # a stray directory is another one's name now
            tree = tree.copy()
            tree.renamed_directories = []
        result = self.load(tree, self.start)
        return result if result.is_loaded else None

    def is_stable(self, result: BrokerResult) -> bool:
        """Whether another start on the result, which scans everything again, changes nothing."""
        directory = self.directory_of(result)
        again = self.load_again(result.tree, directory)
        return again is not None and holds_the_same(again.tree, result.tree, directory)

    def at_rest(self, result: BrokerResult) -> BrokerResult | None:
        """Start the model of the broker repeatedly, at most four rounds; return a result that the next start leaves
        unchanged. Return None if there is no such result, or if a round begins with the result of a failed start.

        A full start scans all segments from `start` on. A short start begins at the recovery point that is written with
        the result, and scans only the last segment (`as_written`). The two differ if the short start finds an epoch
        that the full scan had dropped, or forgets producers that have expired. A result that neither kind changes is
        returned at once. If there is none, the first result that a short start leaves unchanged is returned after the
        last round. If short starts do not apply, only `result` itself is tried, with a full start. No field is set.

        The rounds end early if a short start fails, or if a full start gives the result of the round before again. They
        also end if a full start would leave transactions open because their end markers are lost.
        """
        fallback: BrokerResult | None = None
        for _ in range(_STARTS):
            if not result.is_loaded:
                return None  # a start that scans all of it fails
            is_stable = self.is_stable(result)
            again = self.as_written(result)
            if again is None:
                return result if is_stable else None
            if not again.is_loaded:
                break
            directory = self.directory_of(result)
            if holds_the_same(again.tree, result.tree, directory):
                if is_stable:
                    return result
                fallback = fallback or result
            elif fallback is None:
                third = self.as_written(again)
                if third is not None and holds_the_same(third.tree, again.tree, directory):
                    fallback = again
            before, result = result, self.load(again.tree, self.start)
            if fallback is not None and self.forgets_ends(result, fallback):
                break
            if result.is_loaded and holds_the_same(result.tree, before.tree, directory):
                break  # starts of both kinds take turns from here on
        return fallback

    def forgets_ends(self, scanned: BrokerResult, known: BrokerResult) -> bool:
        """Whether transactions are open in `scanned`, the result of a full scan, although `known`, a result with equal
        logs, has a producer snapshot that proves that they ended. False if the scan failed or the logs differ.
        """
        if not scanned.is_loaded or logs(scanned.tree, self.directory) != logs(known.tree, self.directory):
            return False
        end = self.loaded_of(known).log_end_offset
        return are_known_to_have_ended(known.tree, scanned.tree, self.directory, end)

    def as_written(self, result: BrokerResult) -> BrokerResult | None:
        """Start the model of the broker on the tree of `result`, from the recovery point that is written with it (the
        log end offset); return the new result, also if this start fails. Return None if the log has at most one
        segment, or not all segments are examined. Return None too if the partition is the metadata log, is not live, or
        became stray.
        """
        if self.is_metadata or self.name.state.value or self.directory_of(result) != self.directory:
            return None
        bases = [base for base, _path in result.tree.logs(self.directory)]
        if len(bases) <= 1 or self.start > bases[0]:
            return None
        end = self.loaded_of(result).log_end_offset
        return self.load(result.tree, end)

    # -- its logs ----------------------------------------------------------------------------------------------------

    def sound(self, until: Cut | None = None) -> SoundLog:
        """Return the sound part of the logs, ending at the latest before the batch of `until` (None: no bound)."""
        return sound_prefix(self.original, self.directory, start=self.start, until=until)

    def salvaged(self, *, resume: bool, looks_inside: bool = False) -> SoundLog:
        """Return what can be kept of the logs with flipped bits corrected; with `resume` also what follows damage. With
        `looks_inside`, records that cannot be read are damage.
        """
        repair = self.rules.repair_bits
        return salvage(
            self.original, self.directory, start=self.start, repair=repair, resume=resume, looks_inside=looks_inside
        )

    # -- the way -----------------------------------------------------------------------------------------------------

    def recover(self, clean: bool, untouched: Tree, known: BrokerResult | None = None) -> BrokerResult:
        """Recover the partition and return the result: the broker's own result on `untouched` if it is good enough
        (`keeps`), else the result of truncating and rebuilding. `untouched` is the directory before it was cleaned up;
        `clean` says whether the log directory has a clean-shutdown marker. `known` is the broker's own result, None if
        the caller does not have it.

        Sets `cut`, `repeat`, `lost`, `repairs`, `took_theirs` and `trusted`. Raises `CannotSettleError` if no
        truncation repairs the partition.
        """
        return self.with_true_epochs(self._recovered(clean, untouched, known))

    def _recovered(self, clean: bool, untouched: Tree, known: BrokerResult | None) -> BrokerResult:
        if self.rules.rebuild_indexes:
            return self.rebuilt()
        if has_unknown_versions(self.original, self.directory):
            self.start = 0
            return self.settle(self.above_log_start(self.keepable(self.sound())))
        if self.rules.resumes and (self.leaves_out_hiding() | self.leaves_out_copies()):
            return self.settle(self.keepable(self.sound()))  # a start keeps both
        theirs = known or self.load(untouched, self.recovery_point, clean=clean)
        if theirs.is_loaded:
            sound = sound_prefix(untouched, self.directory, start=self.start)
            kept = self.keeps(theirs, untouched, sound) and self.keepable(sound) is sound
            kept = kept and not self.goes_on_above_log_start(sound)
            if kept and clean and sound.cut is None and sound.repeat is None:
                self.trusted = theirs
            rest = None
            if kept:
                left = self.sound_part_of(theirs, untouched, sound)
                rest = self.at_rest(theirs)
            if rest is not None and (rest is theirs or self.keeps(rest, untouched, sound)):
                self.cut, self.repeat = (None if left.ends_at_rest else sound.cut), left.repeat
                self.took_theirs = True
                return rest
            if sound.repeat is not None:
                self.floor = self.reached(theirs)
        sound = self.keepable(self.sound())
        return self.settle(self.above_log_start(sound))

    def recover_whole(self, untouched: Tree) -> BrokerResult:
        """Recover the partition as after a crash, from its first segment on; parameters and errors are as in `recover`.
        `start` becomes 0.
        """
        self.start = self.recovery_point = 0
        return self.recover(False, untouched)

    def leaves_out_hiding(self) -> bool:
        """Remove from `original` the empty segments that hide records of the segments before them, on a copy of the
        tree. Return whether there are any; always False for a metadata log. Raises `StorageError` if a log cannot be
        read.
        """
        hiding = set() if self.is_metadata else hiding_segments(self.original, self.directory)
        if hiding:
            self.original = self.original.copy()
            remove_segments(self.original, self.directory, hiding)
        return bool(hiding)

    def leaves_out_copies(self) -> bool:
        """Remove the last batches of segments in `original` that the following segments repeat at their beginning
        (`sizes_without_copies`), on a copy of the tree. A broker would deliver aborted records from them to
        `read_committed` consumers. Return whether there are any; always False for a metadata log. Raises `StorageError`
        if a log cannot be read.
        """
        sizes = {} if self.is_metadata else sizes_without_copies(self.original, self.directory)
        if sizes:
            self.original = self.original.copy()
            for path, size in sizes.items():
                self.original.files[path] = self.original.files[path].slice(0, size)
        return bool(sizes)

    def sound_part_of(self, theirs: BrokerResult, before: Tree, sound: SoundLog) -> SoundLog:
        """Return the part before the first damage of the logs in `theirs`, the result of a broker's own start. `before`
        is the tree before that start, `sound` its sound part, which is returned if the start neither renamed the
        directory nor changed a log. Raises `StorageError` if a log cannot be read.
        """
        directory = self.directory_of(theirs)
        if directory == self.directory:
            segments = before.logs(directory)
            unchanged = all(theirs.tree.files.get(path) == before.files[path] for _base, path in segments)
            if unchanged and theirs.tree.logs(directory) == segments:
                return sound
        return sound_prefix(theirs.tree, directory, start=self.start)

    def goes_on_above_log_start(self, sound: SoundLog) -> bool:
        """Whether the sound part ends in damage below the log start offset and `above_log_start` keeps a salvaged log
        in its place; then `repairs` is set too.
        """
        kept = self.above_log_start(sound)
        return kept is not sound and bool(kept.sizes)

    def above_log_start(self, sound: SoundLog) -> SoundLog:
        """Return the part to keep of a log whose sound part ends in damage below the log start offset. Consumers cannot
        read records below that offset, so their loss does not matter. `sound` is returned unchanged for any other log,
        in mode salvage, and if nothing shows that the log went beyond the log start offset.

        The salvaged log is returned, and `repairs` is set, if the log continues at or below the log start offset after
        each damaged place. An incomplete write at a log's end does not count as one. Otherwise the result is an empty
        log with only `cut`. A broker then begins a new log at the log start offset (`LogLoader.load`), so no offset
        that was read is assigned to another record.
        """
        ends_below = max(sound.end_offset or 0, sound.log_end_offset) < self.log_start
        if sound.cut is None or self.rules.resumes or not ends_below:
            return sound
        salvaged = self.salvaged(resume=True)
        reached = max(salvaged.end_offset or 0, self.claimed_end(sound.cut))
        if reached <= self.log_start:
            return sound  # nothing there tells that the log reached so far: its records may be all there is
        if all(first_offset is not None and first_offset <= self.log_start for first_offset in salvaged.resumed):
            self.repairs = salvaged.repairs
            return salvaged
        return SoundLog(cut=sound.cut)

    def claimed_end(self, cut: Cut) -> int:
        """Return the offset after the last one that the header of the damaged batch at `cut` claims; 0 if the header is
        incomplete or implausible. Raises `StorageError` if the log cannot be read.
        """
        data = self.original.source(cut.path).read(cut.position, BATCH.size)
        if len(data) < BATCH.size:
            return 0
        header = BatchHeader(*BATCH.struct.unpack(data))
        makes_sense = header.magic == BATCH_MAGIC and 0 <= header.base_offset <= header.last_offset
        return header.next_offset if makes_sense else 0

    def rebuilt(self) -> BrokerResult:
        """Return the result with all indexes rebuilt and the logs unchanged. Raises `CannotSettleError` if the logs are
        not sound throughout, if a start would change them, or for the reasons of `settle`.
        """
        sound = self.sound()
        if sound.cut is None:
            rebuilt = self.settle(sound)
            if logs(rebuilt.tree, self.directory_of(rebuilt)) == logs(self.original, self.directory):
                return rebuilt
        cut = self.cut or sound.cut or sound.repeat
        where = self.directory if cut is None else f"{cut.path}, byte {cut.position}: {cut.code}: {cut.detail}"
        raise CannotSettleError(f"indexes are rebuilt for a log that stays as it is ({where}): recover the log first")

    def keepable(self, sound: SoundLog) -> SoundLog:
        """Return the part of the logs to keep: `sound`, or what bit repair or mode salvage keeps, if the rules have one
        of them. With bit repair, corrected batches are kept. In mode salvage, batches after damage are kept too, and
        displaced copies of kept batches are left out. With `looks_inside`, batches with unreadable records are left out
        too. Without mode salvage, the result is never smaller than `sound`. Sets `lost` and `repairs` unless `sound` is
        returned. Raises `CannotSettleError` if a metadata log would get a gap.
        """
        rules = self.rules
        looks = rules.resumes and bool(rules.looks_inside)
        if rules.resumes and sound.cut is None and sound.repeat is not None and not self.is_metadata:
            salvaged = self.salvaged(resume=True)
            if self.drops_only_copies(salvaged, sound.repeat):
                self.lost, self.repairs = salvaged.lost, salvaged.repairs
                return salvaged
        if rules.repair_bits is None and (sound.cut is None or not rules.resumes) and not looks:
            return sound
        if sound.cut is None and not (looks and self.holds_unreadable()):
            if rules.repair_bits is None:
                return sound
            salvaged = self.salvaged(resume=False)
            if not salvaged.repairs or salvaged.size < sound.size:
                return sound
            self.lost, self.repairs = salvaged.lost, salvaged.repairs
            return salvaged
        salvaged = self.salvaged(resume=rules.resumes, looks_inside=looks)
        if not rules.resumes and salvaged.size < sound.size:
            return sound  # it stopped at an older offset, which later ones go on after
        cut = sound.cut or salvaged.cut
        if self.is_metadata and rules.resumes and cut is not None:
            self.refuse_gap(salvaged, cut)
        self.lost, self.repairs = salvaged.lost, salvaged.repairs
        return salvaged

    def drops_only_copies(self, salvaged: SoundLog, repeat: Cut) -> bool:
        """Whether mode salvage leaves out only copies of batches that it keeps. It is False also if the first batch
        left out is not displaced, or is not the log's first batch with repeated offsets (`repeat`). Raises
        `StorageError` if a log cannot be read.
        """
        cut = salvaged.cut
        if cut is None or cut.code is not FindingCode.OFFSET_DISPLACED:
            return False
        if (cut.path, cut.position) != (repeat.path, repeat.position):
            return False  # a segment of another moment
        tree = self.original.copy()
        self.keep(tree, salvaged)
        before, after = (
            {
                identity(batch, batch.header.first_offset)
                for _base, path in each.logs(self.directory)
                for batch in Scanner(each.source(path), check_crc=False)
            }
            for each in (self.original, tree)
        )
        return before == after

    def holds_unreadable(self) -> bool:
        """Whether some batch other than a control batch has records that cannot be read, although its checksum is
        right. Reads all segments, each up to its first damage, and stops at the first such batch. Raises `StorageError`
        if a log cannot be read.
        """
        for _base, path in self.original.logs(self.directory):
            for batch in Scanner(self.original.source(path)):
                if not batch.header.is_control and look_inside(batch)[0] is Insides.UNREADABLE:
                    return True
        return False

    def refuse_gap(self, found: SoundLog, cut: Cut) -> None:
        """Raise `CannotSettleError` if `found`, the part that salvage keeps, includes batches after the damage at
        `cut`. To be called only for a metadata log, which must have no gap, as each record builds on the earlier ones.
        """
        up_to = self.salvaged(resume=False)
        if found.size > up_to.size:
            raise CannotSettleError(
                f"{cut.path} is damaged at byte {cut.position}, and mode salvage would leave a gap there, which a "
                f"metadata log must not have; {OTHER_COPIES}"
            )

    def loaded_of(self, result: BrokerResult) -> LoadedPartition:
        """State of this directory after a start; its `-future` copy may be beside it."""
        return result.partitions[self.directory]

    def directory_of(self, result: BrokerResult) -> str:
        """Name of the directory after a start: its `-stray` name if it became stray."""
        return self.loaded_of(result).stray or self.directory

    def keeps(self, theirs: BrokerResult, before: Tree, sound: SoundLog) -> bool:
        """Whether the broker's own result `theirs` is good enough. Its logs must be sound throughout and hold all bytes
        of `sound`; the order may differ if a segment was split. If offsets repeat, its log end offset must be after all
        batches. False if the directory would become stray although its topic id is known. `before` is the tree before
        the broker's start.

        One fault is accepted: last batches above the broker's log end offset, which no consumer reads. They must have
        fewer bytes than `sound` would remove from the broker's result, and the indexes of the last segment must accept
        appends.
        """
        directory = self.directory_of(theirs)
        if directory != self.directory and topic_id_or_none(self.original, self.directory) is not None:
            return False  # it would be stray, and its topic id is known now
        kept, ours = logs(theirs.tree, directory), sound_logs(before, sound)
        end = self.loaded_of(theirs).log_end_offset
        if kept == ours:
            return sound.repeat is None or end == sound.log_end_offset
        walked = sound_prefix(theirs.tree, directory, start=self.start)
        if not KeptBytes([kept]).holds_all(ours) or (walked.cut is not None and not walked.ends_at_rest):
            return False
        if walked.ends_at_rest:
            hidden = bytes_above(theirs.tree, directory, end)
            return hidden < kept.size - ours.size and can_go_on(theirs.tree, directory, end)
        return walked.repeat is None or end == walked.log_end_offset

    def reached(self, theirs: BrokerResult) -> Content:
        """Return the logs of the broker's result if it is stable, sound, and its log ends after its last batch; else
        empty content.
        """
        directory = self.directory_of(theirs)
        walked = sound_prefix(theirs.tree, directory, start=self.start)
        ends = walked.cut is None and walked.log_end_offset == self.loaded_of(theirs).log_end_offset
        return logs(theirs.tree, directory) if ends and self.is_stable(theirs) else Content()

    def settle(self, sound: SoundLog) -> BrokerResult:
        """Truncate a copy of the logs to `sound`, rebuild all other files, and start the model of the broker until a
        result is stable (`at_rest`). Return this result, without open transactions if the original files prove how they
        ended (`with_known_ends`). If a batch keeps the broker from starting or from serving all logs, the logs are
        truncated further. Sets `cut`, `repeat` and `shortened`, and may lower `log_start` and `start`.

        Raises `CannotSettleError` if no stable state is reached in 40 rounds, if the broker fails for another reason,
        or if the topic id cannot be read.
        """
        self.check_topic_id()
        tree = self.kept(sound)
        for _ in range(_ROUNDS):
            self.log_start = min(self.log_start, last_start(tree, self.directory, self.log_start))
            result = self.load(tree, self.start)
            if sound.repeat is not None and not isinstance(result.error, FullIndexError):
                until = self.in_the_way(result, sound)
                if until is not None:
                    sound = self.shorter(sound, until)
                    tree = self.kept(sound)
                    continue
            if not result.is_loaded:
                tree = self.cut_at_failure(tree, result)
                continue
            rest = self.at_rest(result)
            if rest is not None:
                return self.with_known_ends(rest)
            tree = self.as_started_again(result)
        raise CannotSettleError(
            f"{self.directory} never reaches a stable state: one start of Kafka after another would change it"
        )

    def with_known_ends(self, rest: BrokerResult) -> BrokerResult:
        """Return a result like `rest`, but without open transactions of which only the end markers are lost. Return
        `rest` if the original producer snapshots and transaction indexes do not prove how they ended, or a start would
        change the new result again. Return it too if `as_written` is None for the new result, such as for a single
        segment, and for a stray directory. Raises `StorageError` if a file cannot be read.
        """
        if self.directory_of(rest) != self.directory:
            return rest
        for known in states_behind(self.original, rest.tree, self.directory, self.lost):
            result = self.load(known.tree, known.offset)
            if not result.is_loaded or logs(result.tree, self.directory) != logs(rest.tree, self.directory):
                continue
            if not opens_as(result.tree, self.original, self.directory, known.proven):
                continue
            again = self.as_written(result)
            if again is not None and again.is_loaded and holds_the_same(again.tree, result.tree, self.directory):
                return result
        return rest

    def with_true_epochs(self, rest: BrokerResult) -> BrokerResult:
        """Return a result whose epoch checkpoint agrees with the leader epochs of the batches. Return `rest` for a
        metadata log or stray directory, or if nothing proves its checkpoint wrong (`true_epochs`). Return it too if a
        start with the new checkpoint fails or changes a file. Raises `StorageError` if a file cannot be read.
        """
        directory, loaded = self.directory_of(rest), self.loaded_of(rest)
        epochs = None if self.is_metadata else true_epochs(rest.tree, directory, loaded.log_start_offset)
        if epochs is None or directory != self.directory:
            return rest
        tree = rest.tree.copy()
        tree.write(f"{directory}/{LEADER_EPOCH_CHECKPOINT}", encode_leader_epochs(epochs))
        result = self.load(tree, loaded.log_end_offset)
        return result if result.is_loaded and holds_the_same(result.tree, tree, directory) else rest

    def in_the_way(self, result: BrokerResult, sound: SoundLog) -> Cut | None:
        """Return the place to cut next if `result`, the broker's result on `sound`, does not serve the whole of it;
        None if there is no such place. If the start fails at a batch, or a batch makes the broker empty its segment,
        the place is this batch. If the start fails for another reason, or the log end offset is wrong, it is the last
        batch with a repeated offset. Otherwise it is the first batch that makes the index hide earlier batches and at
        which a cut keeps `floor`.
        """
        if result.is_loaded:
            partition = self.loaded_of(result)
            if partition.emptied is not None:
                detail = "an older offset that a Kafka index would not accept: Kafka would empty the segment"
                path, position = partition.emptied
                return Cut(path=path, position=position, code=FindingCode.OFFSET_NOT_INCREASING, detail=detail)
            if partition.log_end_offset != sound.log_end_offset:
                return sound.last_repeat
            for until in hiding(result.tree, self.directory_of(result)):
                shorter = self.sound(until)
                if KeptBytes([sound_logs(self.original, shorter)]).holds_all(self.floor):
                    return until
            return None
        error = result.error
        if error is None or error.position is None or error.segment_path is None:
            return sound.last_repeat
        detail = f"Kafka does not start on this batch: {as_printed(result.exception, result.message)}"
        return Cut(path=error.segment_path, position=error.position, code=FindingCode.BROKER_REFUSES, detail=detail)

    def shorter(self, sound: SoundLog, until: Cut) -> SoundLog:
        """Return a smaller sound part of the logs than `sound`: the part before the batch `until`. If this is not
        smaller, it ends before the last batch with a repeated offset, or else before the first one. Counts the calls in
        `shortened`. From the twelfth call on, if there are several such batches, it ends before the first one at once,
        to finish sooner.
        """
        self.shortened += 1
        last = sound.last_repeat if self.shortened < _SHORTENED else sound.repeat
        size = sound.size
        for place in (until, last) if last is sound.last_repeat else (last,):
            shorter = self.sound(place)
            if shorter.size < size:
                return shorter
        return self.sound(sound.repeat)

    def as_started_again(self, result: BrokerResult) -> Tree:
        """Return the tree of `result` for the next start, with the directory under its original name. If the partition
        became stray, the broker is first started once more, because a stray partition loses leader epochs that are not
        written yet. The files of the directory are then from that start, all others are the original ones. Raises
        `CannotSettleError` if the start fails.
        """
        directory = self.directory_of(result)
        if directory == self.directory:
            return result.tree
        again = self.load_again(result.tree, directory)
        if again is None:
            raise CannotSettleError(f"Kafka would not start on {directory}, which is no longer its own")
        tree = self.original.copy()
        for name in tree.all_names(self.directory):
            tree.delete(f"{self.directory}/{name}")
        for name in again.tree.all_names(directory):
            tree.files[f"{self.directory}/{name}"] = again.tree.files[f"{directory}/{name}"]
        return tree

    def check_topic_id(self) -> None:
        """Raise `CannotSettleError` if a broker cannot read or parse `partition.metadata`, because recovery never
        invents a topic id. A missing file is accepted. Raises `StorageError` if the file cannot be read from disk.
        """
        try:
            read_topic_id(self.original, self.directory)
        except JavaError as error:
            unknown = (
                f"the topic id of {self.directory} cannot be read ({error}), and neither another partition of the "
                "topic in this directory nor the metadata beside it knows it; name it with "
            )
            raise CannotSettleError(Sentence(unknown, Ask.TOPIC_ID)) from None

    def kept(self, sound: SoundLog) -> Tree:
        """Return a tree whose logs are reduced to `sound` (`keep`). Sets `cut` and `repeat`."""
        tree = self.original.copy()
        self.cut, self.repeat = sound.cut, sound.repeat
        self.keep(tree, sound)
        return tree

    def keep(self, tree: Tree, sound: SoundLog) -> None:
        """Reduce the logs in `tree` to `sound`, in place. Segments that are not in `sound` are removed. Other segments
        are truncated, or get the content that `sound` has for them. If recovery resumes after damage, segments that
        would hide others are removed too (`hiding_segments`), except in a metadata log. From base offset `start` on,
        the indexes of segments are emptied, so that they are rebuilt.
        """
        gone: set[int] = set()
        for base, path in tree.logs(self.directory):
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
        if self.rules.resumes and not self.is_metadata:
            remove_segments(tree, self.directory, hiding_segments(tree, self.directory))
        bases = {base for base, _path in tree.logs(self.directory)}
        reset_indexes(tree, self.directory, {base for base in bases if base >= self.start})

    def cut_at_failure(self, tree: Tree, result: BrokerResult) -> Tree:
        """Truncate `tree`, in place, at the batch at which the broker's start fails, and return it. Later segments are
        removed, and the segment's indexes are emptied. Sets `cut`.

        If the start does not fail at a batch, all segments are examined from now on: sets `start` to 0 and returns a
        new tree, or raises `CannotSettleError` if `start` is 0 already. Also raises it if `segment.index.bytes` is too
        small.
        """
        message, error = result.message or "", result.error
        if isinstance(error, FullIndexError):
            raise CannotSettleError(self.smallest_index(tree))
        path = None if error is None else error.segment_path
        if error is None or error.position is None or path is None or path not in tree.files:
            if self.start > 0:
                self.start = 0
                return self.kept(self.sound())
            raise CannotSettleError(f"Kafka would not start: {as_printed(result.exception, message)}")
        detail = f"Kafka does not start on this batch: {as_printed(result.exception, message)}"
        self.cut = Cut(path=path, position=error.position, code=FindingCode.BROKER_REFUSES, detail=detail)
        tree.files[path] = tree.files[path].slice(0, error.position)
        base = parse_base(path)
        bases = {other for other, _ in tree.logs(self.directory)}
        remove_segments(tree, self.directory, {later for later in bases if later > base})
        reset_indexes(tree, self.directory, bases & {base})
        return tree

    def smallest_index(self, tree: Tree) -> str:
        """Return a sentence that names the smallest value of `segment.index.bytes`, above the present one, with which a
        broker starts on `tree` and another start changes nothing. If no value works, the sentence says so. Starts the
        model of the broker for each tried value.
        """
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
        """Whether a broker with `segment.index.bytes` of `size` starts on `tree`, and another start changes nothing.
        Neither `tree` nor this object is changed.
        """
        tried = structs.replace(self.rules.settings(self.name.topic), segment_index_bytes=size)
        rules = structs.replace(self.rules, config=tried.as_names(), topics=NO_FACTS)
        with_room = PartitionRecovery(self.original, self.directory, self.name, Checkpoints({}, {}), rules)
        with_room.log_start = self.log_start
        first = with_room.load(tree, 0)
        return first.is_loaded and with_room.is_stable(first)
