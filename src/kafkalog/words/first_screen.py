"""First screen of a plan: the most urgent facts about a broker for an operator who is woken at night, in 24 lines of 80
columns.

In this order: whether the broker starts and with which release, which partitions are out of service then, which deleted
segments a start removes, which partitions lose records and since when, which groups are beyond the end of a log, which
deleted partitions a start removes, and which commands to type. If not everything fits, the rest is left out and
counted; the tables after the screen have everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kafkalog.codec.common.wording import counted
from kafkalog.words.escapes import escape_controls
from kafkalog.words.wrapping import before_command, folded, folded_with_command, wrapped

__all__ = ["HEIGHT", "FirstScreen", "Loss", "StartForecast", "paths_text", "start_lines"]

HEIGHT = 24
"""Lines of the screen."""
_PATHS = 140
_COMMANDS = 7
_OF_A_LOSS = 2
_FEWEST_LOSSES = 3
_FEWEST = 2
_AT_FIRST = {
    "problems": 4, "start": 6, "out_of_service": 2, "not_given": 2, "lost": 3, "beyond_end": 4, "deleted": 2, "note": 3,
}  # fmt: skip
"""Most lines of each part; losses get what the other parts leave. A sentence gets two lines, or is left out."""
_THEN: Sequence[Mapping[str, int]] = (
    {"beyond_end": 3}, {"beyond_end": 1}, {"start": 4}, {"not_given": 1}, {"start": 3}, {"problems": 2}, {"lost": 2},
    {"start": 2}, {"note": 2}, {"problems": 1}, {"out_of_service": 1}, {"deleted": 0}, {"lost": 1},
)  # fmt: skip
"""Parts that get fewer lines, one after the other, until the screen has the commands too."""


class StartForecast(Struct, frozen=True):
    """Sentences about the start of a node on a log directory."""

    sentences: tuple[str, ...]
    fails: bool
    """whether one of them says that the start fails"""


def start_lines(by_forecast: Mapping[StartForecast, Sequence[str]], *, are_alone: bool) -> Iterator[str]:
    """Yield the sentences of each forecast. `by_forecast` has the log directories to which a forecast applies, at least
    one. If there are several forecasts, or with `are_alone`, each sentence begins with the first directory and the
    number of the others.

    `are_alone` says that other directories of the broker could not be examined. Unless the start fails, each sentence
    then begins with `DIRECTORY alone`. A start that fails also fails with the other directories.
    """
    for forecast, directories in by_forecast.items():
        named = f"{directories[0]}{f' and {len(directories) - 1} more' if len(directories) > 1 else ''}"
        alone = "" if forecast.fails else " alone"
        where = f"{named}{alone}: " if are_alone else f"{named}: " if len(by_forecast) > 1 else ""
        yield from (f"{where}{sentence}" for sentence in forecast.sentences)


class Loss(Struct, frozen=True, kw_only=True):
    """Loss of one partition, as a sentence for one line or two."""

    place: str
    """the partition directory, with its log directory if there are several"""
    offsets: str
    written: str = ""
    """when the lost records were written; empty if unknown"""
    by_eye: int = 0
    """number of records of the lost batches that can be decoded, although nothing proves them"""
    look: str = ""
    """command that prints the first of them"""

    @property
    def sentence(self) -> str:
        """The whole sentence."""
        written = f", written {self.written}" if self.written else ""
        eye = f"; {self.by_eye} can be shown (below)" if self.by_eye else ""
        return f"  {self.place}: {self.offsets}{written}{eye}"


class FirstScreen(Struct, frozen=True, kw_only=True):
    """The texts of the screen in their order. Each text is one sentence, not yet wrapped."""

    title: str
    """one line that is not wrapped, because it ends in a path"""
    start: Sequence[str]
    """whether it starts, for each group of releases with equal answers"""
    out_of_service: str
    """empty if nothing is known to be out of service"""
    not_given: str = ""
    """log directories of the brokers that were not given; empty if all were"""
    lost: str
    """total of the losses"""
    losses: Sequence[Loss] = ()
    beyond_end: Sequence[str] = ()
    """groups beyond the end of a log, and other consequences of losses"""
    removed: Sequence[str] = ()
    """deleted segments that a start removes, each with the command that keeps them, which is never cut"""
    deleted: str = ""
    """deleted partitions that a start removes, in short; empty if there are none"""
    deleted_in_full: str = ""
    """the same with the command that keeps them, to follow the screen"""
    note: str = ""
    """why there is no command, or how its result differs from the losses above"""
    commands: Sequence[str] = ()
    notes: Mapping[int, str] = {}
    """notes before further commands, by the number of commands before them"""
    problems: Sequence[str] = ()
    """what comes before everything else: missing or unreadable directories"""
    before_any_start: Sequence[str] = ()
    """what is to be done before any node is started, each with the command for it, which is never cut"""

    def lines(self, width: int, height: int = HEIGHT) -> list[str]:
        """Return the lines of the screen, wrapped to `width` columns with control characters escaped. Each section
        except `before_any_start` and `removed` has a maximum number of lines, so long sentences are cut; `left_out`
        returns them in full.
        Losses fill the remaining lines up to `height`; if there are fewer, missing directories get more lines, then
        groups, then the start. If the commands do not fit, the other sections get fewer lines.

        Only the title, a command or a single long word can be wider than `width`. There can be more than `height` lines
        if `height` is small, or if `before_any_start`, `removed` or the first command is long.
        """
        most = {**_AT_FIRST, "start": _AT_FIRST["start"] - bool(self.problems)}
        lines = self._lines(width, height, most)
        for fewer in _THEN:
            if len(lines) <= height:
                break
            most |= fewer
            lines = self._lines(width, height, most)
        return lines

    def _lines(self, width: int, height: int, most: Mapping[str, int]) -> list[str]:
        """Return the lines with at most as many of each section as `most` says, or more if lines are left."""
        title = escape_controls(self.title)
        before = [line for each in self.before_any_start for line in folded_with_command(escape_controls(each), width)]
        problems = _cut(self.problems, most["problems"], width)
        start = _starts(self.start, most["start"], width)
        head = [
            *_cut_one(self.out_of_service, most["out_of_service"], width),
            *_cut_one(self.not_given, most["not_given"], width),
            *(line for each in self.removed for line in folded_with_command(escape_controls(each), width)),
            *_cut_one(self.lost, most["lost"], width),
        ]
        beyond = _cut(self.beyond_end, most["beyond_end"], width)
        tail = [
            *_cut_one(self.deleted, most["deleted"], width),
            *_cut_one(self.note, most["note"], width),
            *self._some_commands(_COMMANDS - 2 * bool(self.problems), width),
        ]
        height -= len(before)
        room = height - len([title, *problems, *start, *head, *beyond, *tail])
        losses = _some_losses(self.losses, max(room, _FEWEST_LOSSES), width)
        room += len(problems) - len(losses)
        problems = _cut(self.problems, max(room, most["problems"]), width)
        room += len(beyond) - len(problems)
        beyond = _cut(self.beyond_end, max(room, most["beyond_end"]), width)
        room = height - len([title, *problems, *head, *losses, *beyond, *tail])
        start = _starts(self.start, max(room, most["start"]), width)
        return [title, *before, *problems, *start, *head, *losses, *beyond, *tail]

    def left_out(self, width: int) -> list[str]:
        """Return in full the sentences that `lines` cuts or omits at this width and the standard height, and then all
        of `looks`. `title`, `before_any_start`, `removed`, `deleted`, `lost`, `losses` and `commands` are never
        included, and no note either if `all_commands` has the notes.
        """
        shown = set(self.lines(width))
        has_notes = not (self.notes and self.commands_left_out(width))
        sentences = [
            *self.problems,
            *self.start,
            *([self.out_of_service] if self.out_of_service else []),
            *([self.not_given] if self.not_given else []),
            *self.beyond_end,
            *([self.note] if self.note and has_notes else []),
            *(self.notes.values() if has_notes else ()),
        ]
        cut = [sentence for sentence in sentences if not shown.issuperset(wrapped(escape_controls(sentence), width))]
        return [*cut, *self.looks]

    @property
    def looks(self) -> list[str]:
        """Sentences, each with the command that shows lost records of one partition."""
        before = "before a recovery, which moves them to quarantine and then prints where"
        return [
            f"records of {loss.place} that nothing proves, {before}: {loss.look}" for loss in self.losses if loss.look
        ]

    def all_commands(self, width: int) -> list[str]:
        """Return a heading and the lines of all commands in their order, wrapped to `width` columns; empty if `lines`
        leaves none out. If there are `notes`, they are in full before the commands that they are about; `note` is
        before the first command unless this has one of the `notes`. What is deleted comes after an empty line, with the
        command that keeps it.
        """
        deleted = folded_with_command(escape_controls(self.deleted_in_full), width) if self.deleted_in_full else []
        if not self.commands_left_out(width):
            return deleted
        notes = {0: self.note, **self.notes} if self.notes else {}
        lines = [f"all {counted(len(self.commands), 'command')}, in their order:"]
        for number, command in enumerate(self.commands):
            lines += wrapped(escape_controls(notes[number]), width) if notes.get(number) else []
            lines += _command_lines(command, width)
        return [*lines, *(["", *deleted] if deleted else [])]

    def _some_commands(self, most: int, width: int) -> list[str]:
        """Return the lines of the first commands that fit into `most` lines, with the notes before them; notes are cut.
        Commands are never cut, so that each can be pasted; the first one is always included, even if it is longer. If
        commands are left out, a last line counts them.
        """
        lines: list[str] = []
        for number in range(len(self.commands)):
            note = self.notes.get(number)
            parts = [*_cut_one(note or "", _AT_FIRST["note"], width), *_command_lines(self.commands[number], width)]
            is_last = number == len(self.commands) - 1
            if lines and len(lines) + len(parts) + (not is_last) > most:
                return [*lines, f"  and {counted(len(self.commands) - number, 'more command')}, below"]
            lines += parts
        return lines

    def commands_left_out(self, width: int) -> list[str]:
        """Return the commands that `lines` leaves out at this width."""
        shown = set(self.lines(width))
        return [command for command in self.commands if not shown.issuperset(_command_lines(command, width))]


def paths_text(paths: Sequence[str]) -> str:
    """Text of paths for a title: all of them, or the first and the number of others if they are too long together."""
    text = ", ".join(paths)
    return text if len(paths) == 1 or len(text) <= _PATHS else f"{paths[0]} and {len(paths) - 1} more"


def _starts(sentences: Sequence[str], most: int, width: int) -> list[str]:
    """Wrap sentences about starts into at most `most` lines. Sentences that begin with `and` come last, each as a whole
    or not at all; if some do not fit, the last line counts them. The other sentences are cut as by `_cut`.
    """
    more = [sentence for sentence in sentences if sentence.startswith("and ")]
    first = [sentence for sentence in sentences if not sentence.startswith("and ")]
    lines = _cut(first, most - bool(more), width)
    for number, sentence in enumerate(more):
        left = len(more) - number
        parts = wrapped(escape_controls(sentence), width)
        if len(lines) + len(parts) + (left > 1) > most:
            return [*lines, f"and {left} more, below"]
        lines += parts
    return lines


def _cut(sentences: Sequence[str], most: int, width: int) -> list[str]:
    """Wrap sentences into at most `most` lines of `width` columns. Each sentence gets about the same number of lines.
    If one needs several lines, a command at its end is left out; if it is still too long, it is cut and ends in an
    ellipsis. If not all sentences fit, the last line counts the others; of several sentences, two lines have one of
    them, and a single line has only the count.
    """
    if len(sentences) > 1 and most < _FEWEST + 1:
        left = len(sentences) - (most > 1)
        counted_rest = f"and {left} more, below" if most > 1 else f"and {counted(left, 'more sentence')}, below"
        return [*(_cut(sentences[:1], 1, width) if most > 1 else []), *([counted_rest] if most else [])]
    lines: list[str] = []
    for number, sentence in enumerate(sentences if most else ()):
        left = len(sentences) - number
        share = max((most - len(lines)) // left, _FEWEST)
        if left > 1 and lines and len(lines) + share > most - 1:
            return [*lines, f"and {left} more, below"]
        parts = wrapped(escape_controls(sentence), width)
        share = min(share, most - len(lines))
        head = before_command(sentence) if len(parts) > 1 else None
        if head is not None:  # a command that is wrapped as text cannot be pasted
            parts = wrapped(escape_controls(f"{head} (see below)"), width)
        if len(parts) > share:
            parts = [*parts[: share - 1], _with_ellipsis(parts[share - 1], width)]
        lines += parts
    return lines


def _cut_one(sentence: str, most: int, width: int) -> list[str]:
    """Wrap a sentence as `_cut` does; no line if it is empty."""
    return _cut([sentence], most, width) if sentence else []


def _with_ellipsis(line: str, width: int) -> str:
    """Return a line with ` ...` at its end, shortened to whole words so that it fits into `width` columns. If its first
    word is too long, that word is cut.
    """
    room = width - len(" ...")
    if len(line) > room:
        whole_words = line[: room + 1].rpartition(" ")[0]
        line = whole_words if whole_words.strip() else line[:room]
    return f"{line.rstrip(' ,;')} ..."


def _some_losses(losses: Sequence[Loss], room: int, width: int) -> list[str]:
    """Return the lines of the first losses that fit into `room` lines, at least `_FEWEST_LOSSES`; a last line counts
    the others.
    """
    lines: list[str] = []
    for number, loss in enumerate(losses):
        parts = _cut([loss.sentence], _OF_A_LOSS, width)
        is_last = number == len(losses) - 1
        if len(lines) + len(parts) + (not is_last) > room:
            return [*lines, f"  and {counted(len(losses) - number, 'more partition')}, below"]
        lines += parts
    return lines


def _command_lines(command: str, width: int) -> list[str]:
    return folded(f"  {escape_controls(command)}", width)
