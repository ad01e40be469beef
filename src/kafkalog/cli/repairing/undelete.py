"""`kafkalog undelete`: list or restore deleted data that is still on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click
from msgspec import structs

from kafkalog.cli.acting import Acting
from kafkalog.cli.options.common import JSON, YES
from kafkalog.cli.options.numbers import PARTITION
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.requests import request_option
from kafkalog.cli.options.times import AT
from kafkalog.cli.output import print_json, remark
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.settings import parse_settings
from kafkalog.cli.shapes.shared_lines import UnreadableLine
from kafkalog.cli.shapes.undelete_lines import RemainsLine, RemainsOfDirectoryLine, put_back_line, taken_out_line
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.questions.chosen_names import chosen_names
from kafkalog.codec.common.errors import RecoveryRefused, StorageError, UsageError
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.common.shell import shell_word
from kafkalog.codec.common.wording import counted
from kafkalog.jobs.undelete.listing import deleted
from kafkalog.jobs.undelete.remains import Remains, RemainsKind
from kafkalog.jobs.undelete.request import Undelete
from kafkalog.jobs.undelete.results import PutBack, UndeletePlan, UndeleteResult
from kafkalog.jobs.undelete.taking_out import TakenOut, undelete_into
from kafkalog.jobs.undelete.undeletion import plan_undelete, undelete
from kafkalog.log.directories.selection import is_glob, matcher
from kafkalog.recovery.act.history import root_of_runs
from kafkalog.recovery.facts.places import log_directories
from kafkalog.words.advice import told
from kafkalog.words.commands import extracting
from kafkalog.words.cut_names import cut_name_text
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode

__all__ = ["command"]

_TOPICS = 3
"""Most topics whose commands are printed."""
_EXTRACTED = ("overlap", "segments")
"""reasons of refusals to restore deleted segments, which can be extracted"""


def _remains(
    paths: Sequence[str],
    patterns: Sequence[str],
    numbers: Sequence[int],
    quarantine: str | None,
    unreadable: dict[str, StorageError],
) -> dict[str, Sequence[Remains]]:
    """Return the deleted data of the chosen topics and partitions, by path. Without `patterns` all topics are chosen,
    and without `numbers` all partitions. A path without such data has an empty list. Directories that cannot be read
    are added to `unreadable`.

    Raises `UnknownName` if a pattern matches no deleted topic, unless something was unreadable, because the data may be
    there. Raises the errors of `deleted` too.
    """
    found: dict[str, Sequence[Remains]] = {}
    look = partial(deleted, quarantine=quarantine, on_unreadable=unreadable.__setitem__, beside=paths)
    if len(patterns) == 1 and not is_glob(patterns[0]):  # the others need not be read then
        found = {path: look(path, topic=patterns[0], partitions=numbers) for path in paths}
        if any(found.values()) or unreadable:
            return found
    everything = {path: look(path) for path in paths}
    names = {remains.topic for several in everything.values() for remains in several}
    is_meant = (
        matcher(frozenset(patterns)) if unreadable and patterns else chosen_names("deleted topic", patterns, names)
    )
    return {
        path: [each for each in several if is_meant(each.topic) and (not numbers or each.partition in numbers)]
        for path, several in everything.items()
    }


@contextmanager
def _nearest_name(paths: Sequence[str], patterns: Sequence[str], quarantine: str | None) -> Iterator[None]:
    """Context manager for restoring a topic. If it ends with `RecoveryRefused` because there is nothing to restore, and
    no deleted topic has the name, `UnknownName` with the nearest name is raised instead. All other errors are passed on
    unchanged; if deleted segments cannot be restored, the commands that extract them are printed before. The
    directories are read again to find out.
    """
    try:
        yield
    except RecoveryRefused as refused:
        if refused.reason == "nothing":
            _remains(paths, patterns, (), quarantine, {})
        if refused.reason in _EXTRACTED:
            for path, several in _remains(paths, patterns, (), quarantine, {}).items():
                for sentence in _extracting(root_of_runs(path), several):
                    remark(sentence)
        raise


def _topics(paths: Sequence[str], patterns: Sequence[str], numbers: Sequence[int], quarantine: str | None) -> list[str]:
    """Return the topics to restore, each once. Names alone are returned unchanged; the recovery itself looks for them.
    If a pattern is among them, the result has the deleted topics that `patterns` match and that have data of the
    partitions `numbers`. Raises `UnknownName` if one of `patterns` then matches none.
    """
    if not any(map(is_glob, patterns)):
        return list(dict.fromkeys(patterns))
    found = _remains(paths, patterns, numbers, quarantine, {})
    return list(dict.fromkeys(remains.topic for several in found.values() for remains in several))


def _list(
    paths: Sequence[str], patterns: Sequence[str], numbers: Sequence[int], quarantine: str | None, as_json: bool
) -> int:
    unreadable: dict[str, StorageError] = {}
    found = _remains(paths, patterns, numbers, quarantine, unreadable)
    reasons = [(place, str(error)) for place, error in sorted(unreadable.items())]
    outcome = _told_unreadable(reasons)
    for path, several in found.items():
        root = root_of_runs(path)
        own = reasons if len(paths) == 1 else [reason for reason in reasons if _is_of(reason[0], root)]
        if as_json:
            remains, unread = shaped(several, list[RemainsLine]), [UnreadableLine(*each) for each in own]
            print_json(RemainsOfDirectoryLine(path=root, remains=remains, unreadable=unread))
        else:
            _print_remains(root, several, "in what can be read" if own else "")
    return outcome


def _is_of(place: str, root: str) -> bool:
    """Whether a path is in the log directory `root` or in a directory that its executions keep. A relative path counts
    as inside.
    """
    return not os.path.isabs(place) or place == root or place.startswith((f"{root}/", f"{root}."))


def _print_remains(root: str, all_remains: Sequence[Remains], rest: str) -> None:
    if not all_remains:
        _print(f"{escape_controls(root)}: no deleted data is still on disk{' ' if rest else ''}{rest}")
        return
    print_table(
        escape_controls(root),
        [
            "topic",
            "partition",
            Column("what", wraps=True),
            Column("first", drop=2),
            "last",
            "records",
            Column("bytes", Kind.BYTES, drop=1),
            Column("deleted", Kind.TIME, drop=3),
            Column("in", wraps=True),
            Column("topic id", if_any=True),
        ],
        [
            [
                remains.topic,
                remains.partition,
                str(remains.kind),
                remains.first_offset,
                remains.last_offset,
                remains.records,
                remains.bytes,
                remains.deleted_ms,
                remains.source,
                remains.topic_id if remains.name_is_cut else None,
            ]
            for remains in all_remains
        ],
    )
    outcomes, damage = map(_outcome, all_remains), _damage(all_remains)
    _print(*outcomes, *damage, *_extracting(root, all_remains))


def _extracting(root: str, all_remains: Sequence[Remains]) -> Iterator[str]:
    """Yield a sentence for each of the first `_TOPICS` topics with data that cannot be restored in place. It ends with
    the command that extracts the data. A last sentence counts the other topics. Data below the log start offset does
    not count. A topic of which a partition was deleted several times has a sentence for each directory or run.
    """
    by_topic: dict[str, list[Remains]] = {}
    for remains in all_remains:
        if remains.why_not is not None and remains.kind is not RemainsKind.BELOW_START:
            by_topic.setdefault(remains.topic, []).append(remains)
    for topic, several in list(by_topic.items())[:_TOPICS]:
        all_of_topic = [each for each in all_remains if each.topic == topic]
        is_one = len({each.partition for each in all_of_topic}) == len(all_of_topic)
        sources = [()] if is_one else [("--source", name) for name in dict.fromkeys(each.source for each in several)]
        for source in sources:
            yield escape_controls(f"to extract what is not restored of {topic}: {extracting(root, topic, *source)}")
    if len(by_topic) > _TOPICS:
        yield f"and {counted(len(by_topic) - _TOPICS, 'more topic')} likewise"


def _damage(all_remains: Sequence[Remains]) -> Iterator[str]:
    for remains in all_remains:
        for segment in remains.segments:
            if segment.damage is not None:
                yield escape_controls(f"{segment.path} is damaged: {segment.damage}; what is sound behind it counts")


def _told_unreadable(reasons: Sequence[tuple[str, str]]) -> ExitCode:
    """Print on standard error which directories cannot be read. Return the exit code for a command that changes
    nothing: IO_ERROR if there are any, else CLEAN.
    """
    for place, reason in reasons:
        sentence = reason if place in reason else f"{place}: {reason}"
        remark(f"{sentence}; its deleted data is neither shown nor restored")
    return ExitCode.IO_ERROR if reasons else ExitCode.CLEAN


def _outcome(remains: Remains) -> str:
    where = f"{remains.run_id}: {remains.directory}" if remains.run_id is not None else remains.directory
    if remains.why_not is not None:
        return escape_controls(f"{where}: not restored: {told(remains.why_not)}")
    if remains.name_is_cut:
        return escape_controls(f"{where}: {cut_name_text(remains.topic_id)}: --as TOPIC gives the whole name")
    return escape_controls(f"{where}: {told(remains.outcome)}")


def _print(*lines: str) -> None:
    with SentenceWriter() as writer:
        for line in lines:
            writer.write(line)


def _offsets(put_back: PutBack) -> str:
    first, end = put_back.log_start_offset, put_back.log_end_offset
    return f"offsets {first} to {end - 1}" if end > first else f"no offsets, the next one is {end}"


def _told(put_back: Sequence[PutBack], left: Sequence[str], notes: Sequence[str]) -> list[str]:
    lines = [
        f"{back.source} -> {back.directory}: {counted(back.records, 'record')}; {_offsets(back)}; "
        f"topic id {back.topic_id or 'none'}"
        for back in put_back
    ]
    lines += [f"stays deleted: {told(each)}" for each in left]
    lines += [f"note: {told(note)}" for note in notes]
    return [escape_controls(line) for line in lines]


def _show_taken(taken: TakenOut, as_json: bool) -> None:
    if as_json:
        print_json(taken_out_line(taken))
        return
    _print(
        f"written into {escape_controls(taken.target)}",
        *_told(taken.put_back, taken.left, ()),
        *(
            f"{escape_controls(name)}: offsets {first} to {last} are lost to damage"
            for name, spans in taken.lost.items()
            for first, last in spans
        ),
    )


def _show_plan(plan: UndeletePlan) -> None:
    _print(*_told(plan.put_back, plan.left, plan.notes))


def _show_put_back(result: UndeleteResult, as_json: bool) -> None:
    if as_json:
        print_json(put_back_line(result))
        return
    root, word = escape_controls(result.done.root), shell_word(result.done.root)
    _print(f"restored in {root}: run {result.run_id}", f"to undo this: kafkalog undo {word} --run {result.run_id}")


@click.command(name="undelete")
@PATHS
@paths_in_properties
@click.option("-t", "--topic", "patterns", metavar="TOPIC", multiple=True,
              help="Restore this topic: a name or a pattern with *, ? and [...]; may be repeated. Without it, or with "
              "--list, deleted data is only listed.")  # fmt: skip
@click.option("-p", "--partition", "numbers", metavar="N", type=PARTITION, multiple=True,
              help="Only partitions with this number; may be repeated.")  # fmt: skip
@click.option("--list", "only_list", is_flag=True, help="Only list the deleted data of the topic.")
@request_option(Undelete, "source")
@request_option(Undelete, "as_topic")
@request_option(Undelete, "topic_id")
@request_option(Undelete, "hold")
@click.option("--into", metavar="DIR", help="Write the result to this new directory and leave PATH unchanged.")
@request_option(Undelete, "config")
@AT
@request_option(Undelete, "quarantine")
@YES
@JSON
def command(
    paths: tuple[str, ...],
    patterns: tuple[str, ...],
    numbers: tuple[int, ...],
    only_list: bool,
    into: str | None,
    yes: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """List what was deleted from log directories and is still on disk, or restore it.

    Covers deleted partitions (-delete and -stray directories), deleted segments (.deleted), and what recoveries keep.
    A topic is restored under the broker's lock and with a journal; `undo` reverses that.  A broker removes what it
    deleted after file.delete.delay.ms, and .deleted segments at its next start: undelete before that.

    A KRaft cluster no longer knows a deleted topic's id.  Stop the broker and undelete with --hold; start it, create
    the topic again, stop it and undelete: the log replaces the empty one, which may be in another log directory of the
    broker, so give all of them.

    Exit code 0 for a list, or if DIR was written; 1 if no deleted topic has the name, 2 if something was restored in
    place, 3 if it refused, 4 if something could not be read; the list and --into still cover the rest.
    """
    paths, quarantine = tuple(log_directories(paths)), given["quarantine"]
    if not patterns or only_list:
        only_to_restore = {
            "--into": into, "--as": given["as_topic"], "--source": given["source"], "--topic-id": given["topic_id"],
            "--config": given["config"], "--at": given["at"], "--hold": given["hold"], "--yes": yes,
        }  # fmt: skip
        meant = [name for name, value in only_to_restore.items() if value not in (None, False, ())]
        if meant and only_list:
            raise UsageError(f"--list only shows what there is: {meant[0]} cannot be used with it")
        if meant:
            raise UsageError(f"{meant[0]} is for restoring a topic: name it with --topic")
        return _list(paths, patterns, numbers, quarantine, as_json)
    asked = Undelete(topic="", partitions=numbers, **{**given, "config": parse_settings(given["config"])})
    is_for_one = into is not None or asked.as_topic is not None or asked.topic_id is not None
    if asked.hold and is_for_one:
        raise UsageError("--hold only renames directories: --into, --as and --topic-id cannot be used with it")
    topics = _topics(paths, patterns, numbers, quarantine)
    if len(topics) > 1 and is_for_one:
        raise UsageError(
            f"--into, --as and --topic-id take one topic, and {len(topics)} are meant: {', '.join(topics)}"
        )
    requests = [structs.replace(asked, topic=topic) for topic in topics]
    acting = Acting(yes=yes, as_json=as_json, show=_show_plan)
    with acting.on(paths, quarantine), _nearest_name(paths, patterns, quarantine):
        if into is not None:
            taken = undelete_into(requests[0], *paths, target=into)
            _show_taken(taken, as_json)
            return _told_unreadable(taken.unreadable)
        planned: list[list[UndeletePlan]] = []
        for request in requests:  # all of them before the first is put back: a refusal changes nothing
            planned.append(plan_undelete(request, *paths))
            for undelete_plan in planned[-1]:
                acting.planned(undelete_plan)
        places = ", ".join(dict.fromkeys(escape_controls(plan.root) for plan in acting.plans))
        acting.agree(f"Put {escape_controls(', '.join(topics))} back in {places}?")
        for number, request in enumerate(requests):
            for result in undelete(request, *paths, expected=None if number else planned[0]):
                _show_put_back(result, as_json)
    return ExitCode.CHANGED
