"""Print the possible ways to recover: a table that compares them, a recommendation, and the command for it."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterator, Sequence

from kafkalog.cli.output import LineWriter
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.common.wording import counted
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.recovery.decide.losses import (
    effect_of,
    from_copies_text,
    lost_text,
    readable_text,
    sentence_of_lost,
    skipped_text,
)
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.decide.ways import Measured, RecoveryWay
from kafkalog.recovery.facts.metadata_copies import IN_PLACE_OF_A_WAY
from kafkalog.words.commands import NOTHING_GIVEN, Given, commands_for, paths_of
from kafkalog.words.escapes import escape_controls
from kafkalog.words.next_step import done_of, is_done, second_of
from kafkalog.words.outlook import copies_to_keep, renaming_text, wrong_log_starts
from kafkalog.words.ways import label_of, mode_words, needs_copies, needs_text

__all__ = ["print_ways", "sentence_of_damage_left", "sentences_of_log_starts"]

def print_ways(
    plan: Plan,
    given: Given = NOTHING_GIVEN,
    *,
    every: bool = False,
    said: Container[str] = (),
    is_note_said: bool = False,
) -> None:
    """Print a table that compares the ways to recover, for all partitions together. Then print the recommended way with
    its command, or the advice to use other nodes' metadata, a renamed directory or a better copy first; neither if
    nothing is recommended. Prints nothing at all if `plan.choice.is_offered` is False.

    `given` has the options that recommended commands repeat. With `every`, each partition gets a table of its own
    before, if there are several. Commands are not repeated if `said` has them all; neither is the advice if
    `is_note_said`.
    """
    ways = plan.choice.ways
    if not plan.choice.is_offered:
        return
    partitions = plan.choice.by_partition
    for name, of_partition in partitions.items() if every and len(partitions) > 1 else ():
        _table(f"ways for {escape_controls(name)}", of_partition)
    _table(f"ways for {escape_controls(plan.root)}" + (", all partitions" if len(partitions) > 1 else ""), ways)
    best = plan.choice.recommended
    with SentenceWriter() as writer:
        if is_note_said and (plan.choice.loses_metadata or plan.choice.better_copies or plan.choice.renamed):
            writer.write("recommended: none of these, but what is said above")
        elif plan.choice.loses_metadata:
            writer.write(f"recommended: none of these; {IN_PLACE_OF_A_WAY}")
        elif plan.choice.renamed:
            sentences = "; ".join(plan.choice.sentences_of_renamed)
            writer.write(escape_controls(f"recommended: none of these; {sentences}"))
        elif plan.choice.better_copies:
            better = "; ".join(each.sentence for each in plan.choice.better_copies)
            writer.write(escape_controls(f"recommended: none of these; {better}"))
        elif best is not None:
            _write_recommended(writer, plan, given, best, said)


def _write_recommended(
    writer: LineWriter, plan: Plan, given: Given, best: RecoveryWay, said: Container[str]
) -> None:
    ways = plan.choice.ways
    kept = copies_to_keep(plan.broker)
    misnamed = [finding for finding in plan.findings if finding.code is FindingCode.SEGMENT_MISNAMED]
    to_mend = [renaming_text(misnamed) if misnamed else "", wrong_log_starts(plan.consequences)]
    for advice in filter(None, to_mend):
        writer.write(escape_controls(f"first {advice}; then ask again"))
    reason = _reason(best, ways, is_all=not (kept or any(to_mend)))
    writer.write(escape_controls(f"recommended: {label_of(best)}, {reason}"))
    for path in kept:
        before = "set a copy of it aside first, as a start truncates it while the log is as it is now"
        writer.write(escape_controls(f"  {path} has more: {before}"))
    kept_from = plan.root if plan.kept_by_runs else None
    meaning = done_of(best, plan.node, kept_from) if is_done(best, plan) else best.consequence
    if meaning:
        writer.write(escape_controls(f"  {meaning}"))
    if best.then is not None:
        writer.write(escape_controls(f"  then, in all other partitions: {best.then.consequence}"))
    for sentence in _besides(best.measured):
        writer.write(f"  {sentence}")
    for sentence in _without(best, ways):
        writer.write(f"  {sentence}")
    if any(way.measured.records_hidden for way in ways):
        writer.write(f"  skipped: {skipped_text(way.measured for way in ways)}")
    commands = [] if is_done(best, plan) or plan.waits_for_a_run else commands_for(best, plan, given)
    is_said = bool(commands) and all(command in said for command in commands)
    for line in ["what to type for it is at the top"] if is_said else commands:
        writer.write(escape_controls(f"  {line}"))
    _write_second(writer, plan, given, said)
    may_proceed = not (plan.mode.spec.leaves_worse_to_person or plan.waits_for_a_run)
    if plan.needs_consent and plan.refusal is None and may_proceed:
        own = mode_words(plan.mode)
        own += [word for copy in plan.copies if needs_copies(plan.mode) for word in ("--copy", copy)]
        own += ["--full"] if plan.needs_full and "--full" not in given.words else []
        words = shell_line([*given.words, *own, "--accept-loss", "--yes"])
        proceed = f"kafkalog recover {shell_line(paths_of(plan, given))} {words}"
        if all(sorted(shlex.split(proceed)) != sorted(shlex.split(command)) for command in commands):
            writer.write(escape_controls("to proceed as planned above and drop records whose checksum is right:"))
            writer.write(escape_controls(f"  {proceed}"))
    for name in plan.choice.by_partition:
        for partition in plan.partitions:
            if partition.name == name and partition.high_watermark is None:
                writer.write(
                    escape_controls(f"{name}: the high watermark is unknown, and so is what consumers have seen")
                )


def _write_second(writer: LineWriter, plan: Plan, given: Given, said: Container[str]) -> None:
    """Write what to do if the recommended way is not possible (`second_of`); nothing if that is the plan itself, or
    an unfinished execution comes first.
    """
    second, commands = second_of(plan, given)
    if second is None or plan.waits_for_a_run:
        return
    is_said = all(command in said for command in commands)
    writer.write(f"if that is not possible, {label_of(second)}{': what to type is at the top' if is_said else ':'}")
    for line in () if is_said else commands:
        writer.write(escape_controls(f"  {line}"))


def _without(best: RecoveryWay, ways: Sequence[RecoveryWay]) -> Iterator[str]:
    """Yield sentences about faults that some other way leaves, and the recommended way `best` does not or to a lesser
    degree. They are about aborted records that readers of committed data get, transactions at which these readers stop,
    and wrong leader epochs.
    """
    if not best.measured.overlaps and any(way.measured.overlaps for way in ways):
        yield "without it readers of committed data may get aborted records from overlapping segments"
    if any(way.measured.held_back > best.measured.held_back for way in ways):
        yield "other ways stop consumers of committed data earlier, at a transaction whose end marker is lost"
    if not best.measured.epoch_falls and any(way.measured.epoch_falls for way in ways):
        yield "without it a wrong leader epoch remains, and replicas and merge rely on epochs"


def sentences_of_log_starts(plan: Plan) -> list[str]:
    """Return a sentence for each changing partition whose log start offset is beyond its log end offset. The plan
    lowers the log start offset, but consumers get no records before it. Empty if there is no such partition.
    """
    wrong = {finding.file for finding in plan.findings if finding.code is FindingCode.LOG_END_BELOW_LOG_START}
    return [
        f"{partition.name}: its log start is beyond its end, and a broker deletes all of it; by this plan it begins at "
        f"offset {partition.log_start_offset} and keeps the files, but no consumer gets what is before that"
        for partition in plan.partitions
        if partition.name in wrong and partition.changes
    ]


def sentence_of_damage_left(measured: Measured) -> str | None:
    """Return a sentence about damage that stays in the log; None if there is none."""
    if not measured.damage_left:
        return None
    places = "1 damaged place remains" if measured.damage_left == 1 else f"{measured.damage_left} damaged places remain"
    what = "stops there"
    if measured.damage_passed == measured.damage_left:
        what = "goes on in the next segment, without what is lost"
    elif measured.damage_passed:
        what = f"stops there, but goes on in the next segment after {measured.damage_passed} of them"
    return f"{places} in the log, and a consumer {what}"


def _besides(measured: Measured) -> list[str]:
    """Return sentences about faults that a way to recover leaves, beside the records that it loses: damage, unreadable
    transaction markers, decreasing leader epochs. Empty if there are none.
    """
    damage = sentence_of_damage_left(measured)
    sentences = [] if damage is None else [damage]
    if measured.markers_damaged:
        sentences.append(
            f"{counted(measured.markers_damaged, 'marker')} of the end of a transaction cannot be read: what it wrote "
            "stays open, or ends as the producer's next transaction does (see kafkalog transactions)"
        )
    if measured.epoch_falls:
        sentences.append(
            "leader epochs decrease from one batch to the next: one of them is wrong, and replicas use them"
        )
    return sentences


def _table(title: str, ways: Sequence[RecoveryWay]) -> None:
    """Print a table of ways to recover, one row each. It has a column for the number of remaining damaged places only
    if a way leaves some.
    """
    has_damage = any(way.measured.damage_left for way in ways)
    print_table(
        title,
        [
            Column("way", wraps=True),
            Column("records kept", wraps=True),
            "records lost",
            Column("still readable", drop=1),
            Column("bytes cut", Kind.BYTES, drop=2),
            Column("offsets lost", drop=4, wraps=True),
            *(["damage left"] if has_damage else []),
            Column("committed records lost", drop=3),
            Column("needs", wraps=True),
        ],
        [
            [
                label_of(way),
                _kept(way),
                _lost(way),
                way.measured.sound_lost,
                _count(way.measured.bytes_cut),
                _offsets(way),
                *([_damage_left(way)] if has_damage else []),
                {None: "unknown", True: "yes", False: "no"}[way.measured.below_high_watermark],
                "declined" if way.refusal is not None else needs_text(way) or "nothing",
            ]
            for way in ways
        ],
        fits=True,
    )


def _count(value: int | None) -> object:
    return "unknown" if value is None else value


def _kept(way: RecoveryWay) -> object:
    kept, hidden = way.measured.records_kept, way.measured.records_hidden
    if way.measured.is_kept_estimate and kept is not None:
        return f"about {kept}"
    return f"{kept}, {hidden} of them skipped" if hidden else _count(kept)


def _lost(way: RecoveryWay) -> object:
    """Return the number of lost records if it is known exactly, so that the table aligns it; otherwise text."""
    measured = way.measured
    return measured.records_lost if measured.is_exact and measured.records_lost is not None else lost_text(measured)


def _offsets(way: RecoveryWay) -> str:
    if way.measured.records_lost is None:
        return "unknown"
    return ranges_text(way.measured.lost) if way.measured.lost else "none"


def _damage_left(way: RecoveryWay) -> object:
    return "unknown" if way.measured.records_lost is None else way.measured.damage_left


def _reason(best: RecoveryWay, ways: Sequence[RecoveryWay], *, is_all: bool = True) -> str:
    measured = best.measured
    others = [way for way in ways if way is not best and way.measured.out_of_reach is not None]
    next_best = min(others, key=lambda way: way.measured.out_of_reach or 0, default=None)
    what = f"{effect_of(measured)}{from_copies_text(measured)}"
    if not measured.records_lost and not measured.is_exact:
        what = f"it is unknown how many records were in the damage; all others are kept{_but_skipped(measured)}"
    if next_best is None:
        return f"{what}, and no other way is known"
    if (next_best.measured.out_of_reach or 0) > (measured.out_of_reach or 0):
        return f"{what}; the next best loses {sentence_of_lost(next_best.measured)}"
    if measured.sound_lost:
        return f"{what}; {readable_text(measured)}{', and no way here keeps more' if is_all else ''}"
    return f"{what}{';' if measured.is_lost_before else ', and'} no other way {'' if is_all else 'of these '}loses less"


def _but_skipped(measured: Measured) -> str:
    return f", and {measured.records_hidden} of them skipped" if measured.records_hidden else ""
