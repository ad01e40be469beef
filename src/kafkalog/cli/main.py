"""The command `kafkalog`: a table of subcommands, which are imported on use, and the handling of every error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TextIO

import click

from kafkalog import __version__
from kafkalog.words.exit_codes import INTERRUPTED, PIPE_CLOSED, ExitCode, exit_code_of, sentence_of

__all__ = ["COMMANDS", "cli", "command_of", "run"]

COMMANDS = {
    "build": ("records.build", "Write partition directories from Parquet, Arrow or JSON lines."),
    "compact": ("repairing.compact", "Compact topics as the broker's log cleaner would, without the broker."),
    "compare": ("looking.compare", "Compare several brokers' volumes: which copy is the best, and why."),
    "completion": ("completion", "Print a script for completion in bash, zsh or fish."),
    "dump": ("dump", "Print records, batches, or the entries of an index, snapshot or checkpoint."),
    "elections": ("clusters.elections", "Show controllers, leader elections and ISR changes, and their causes."),
    "explain": ("looking.explain", "Explain the bytes of a file: field, value and meaning of each."),
    "export": ("records.export", "Add records to tables of Parquet, Iceberg or Delta, each once."),
    "find": ("records.find", "Find offsets of times, and where an offset is."),
    "groups": ("clusters.groups", "Show consumer groups, their members and assignments."),
    "index": ("repairing.index", "Check indexes, or rebuild them."),
    "ls": ("looking.ls", "List topics, partitions and segments, with their health."),
    "merge": ("repairing.merge", "Merge several copies into one healthy log or log directory."),
    "metadata": ("clusters.metadata", "Show what a KRaft cluster knew: topics, brokers, configurations."),
    "offsets": ("clusters.offsets", "Show the committed offsets of consumer groups."),
    "plan": ("repairing.plan", "Show what recover would do, and what the broker itself would do."),
    "quorum": ("clusters.quorum", "Show what is left of a KRaft quorum, or bring it back."),
    "recover": ("repairing.recover", "Repair a log directory after a crash."),
    "replay": ("records.replay", "Write the records of log directories into a live cluster, each once."),
    "report": ("looking.report", "Write a one-page report on log directories, to share."),
    "remote": ("looking.remote", "Show the remote tier of tiered logs, segment by segment."),
    "retention": ("looking.retention", "Show what retention would delete now, and when the rest goes."),
    "runs": ("repairing.runs", "List what recoveries have kept, or permanently delete it."),
    "schemas": ("clusters.schemas", "Show the schema registry that _schemas holds, or give it back."),
    "serve": ("records.serve", "Let Kafka's clients read log directories: a read-only broker."),
    "staging": ("repairing.staging", "List or delete what killed Spark jobs left beside a log directory."),
    "top": ("records.top", "Show what fills the disk: by topic, partition, key, producer or time."),
    "transactions": ("clusters.transactions", "Show producers and transactions, and how to abort hanging ones."),
    "triage": ("looking.triage", "Foresee who leads after a power cut, and what the others lose."),
    "undelete": ("repairing.undelete", "List what was deleted and is still on disk, or restore it."),
    "undo": ("repairing.undo", "Undo a recovery, byte for byte."),
    "verify": ("looking.verify", "Check everything; change nothing."),
    "zk": ("clusters.zk", "Show a ZooKeeper server's tree of nodes at any transaction."),
}
"""Subcommand -> the module that has its `command`, and one line of help; `--help` imports none of them."""

GROUPS = {
    "Look and check": ("ls", "verify", "plan", "compare", "triage", "report", "explain", "retention", "remote"),
    "Repair": ("recover", "undo", "runs", "undelete", "merge", "compact", "index", "staging"),
    "Read records": ("dump", "export", "find", "top"),
    "Ask what the cluster knew": ("groups", "offsets", "transactions", "elections", "metadata", "zk", "schemas"),
    "Bring a cluster back": ("quorum", "serve", "replay"),
    "Write, and set up": ("build", "completion"),
}
"""The commands by purpose, in the order in which `--help` lists them."""

COMPLETE_VARIABLE = "_KAFKALOG_COMPLETE"
"""environment variable through which a shell asks click for completions"""


_WITHOUT_OBJECT = (ExitCode.FINDINGS, INTERRUPTED)
"""exit codes after which no JSON error object is printed: there is nothing to report, or no reader is left"""


class _PipeClosedError(Exception):
    """The reader of the output has closed the pipe. Used in place of `BrokenPipeError`, which click would turn into
    exit code 1.
    """


def command_of(name: str) -> click.Command:
    """Import and return the subcommand with this name in `COMMANDS`."""
    command: click.Command = import_module(f"{__package__}.{COMMANDS[name][0]}").command
    return command


class LazyGroup(click.Group):
    """A group that takes its commands from `COMMANDS` and imports them on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the subcommand `cmd_name`. Raises `click.UsageError`, with the nearest name, if it is
        unknown.
        """
        if cmd_name not in COMMANDS:
            from kafkalog.codec.common.unknown import unknown

            raise click.UsageError(str(unknown("command", cmd_name, COMMANDS)), ctx)
        return command_of(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and its arguments, as click's groups do. Raises `click.UsageError` for an unknown
        command, or, unless a shell completes the line, if an option that takes one value is given twice.
        """
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            from kafkalog.cli.options.strict import refuse_repeats

            refuse_repeats(command, click.Context(command, info_name=name, parent=ctx), rest)
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A `BrokenPipeError` is raised as `_PipeClosedError`, because click would end with the exit
        code of findings.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _PipeClosedError from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help lines of the table."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(__version__, "-V", "--version", prog_name="kafkalog", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, hidden=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Read, check, repair and query Apache Kafka's log directories without a broker.

    Exit codes: 0 clean, done or nothing to do, 1 findings, 2 a directory was changed in place, 3 refused, 4 I/O
    error, 64 usage.
    """


def _write_out(stream: TextIO, text: str = "") -> None:
    """Write `text` to a stream and flush it. If that fails with `OSError`, redirect the stream's file descriptor to the
    null device. Otherwise the interpreter would fail when it flushes the stream at exit.
    """
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Without arguments, print the help on standard error and return
    `ExitCode.USAGE`. If the reader of standard output has closed it, return `PIPE_CLOSED`.

    Every other exception except `SystemExit` becomes an exit code and a sentence on standard error. With `--json`, an
    error before any output is also printed as a JSON object on standard output. This is not done for an interrupt or an
    error with exit code 1, such as an unknown name. With `--debug` the traceback is printed first.
    """
    if not arguments and COMPLETE_VARIABLE not in os.environ:
        sys.stderr.write(cli.get_help(click.Context(cli, info_name="kafkalog")) + "\n")
        return ExitCode.USAGE
    printed = _blocks_printed()
    try:
        result = cli.main(args=list(arguments), prog_name="kafkalog", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, _PipeClosedError):
        _write_out(sys.stdout)
        _write_out(sys.stderr)
        return PIPE_CLOSED
    except (click.ClickException, click.Abort, KeyboardInterrupt, Exception) as error:  # noqa: BLE001
        if "--debug" in arguments:
            import traceback

            traceback.print_exc()
        known = _is_expected(error)
        _report_findings(error)
        text = sentence_of(error) if known else f"unexpected {type(error).__name__}: {sentence_of(error)}"
        code = exit_code_of(error)
        if _wants_json(arguments) and code not in _WITHOUT_OBJECT and _blocks_printed() == printed:
            return _as_json(text, code)
        _complain(text)
        return code
    return int(result) if isinstance(result, int) else ExitCode.CLEAN


def _report_findings(error: BaseException) -> None:
    """Print on standard error the findings of an `UnknownName` error, which say why the name may exist nevertheless.
    Does nothing for other errors.
    """
    from kafkalog.codec.common.errors import UnknownName

    if isinstance(error, UnknownName) and error.findings:
        from kafkalog.cli.output import report_findings

        report_findings(error.findings)


def _wants_json(arguments: Sequence[str]) -> bool:
    words = list(arguments)
    return "--json" in words[: words.index("--") if "--" in words else None]


def _blocks_printed() -> int:
    """Return the number of blocks of output written so far; 0 if the output module is not loaded."""
    output = sys.modules.get("kafkalog.cli.output")
    return 0 if output is None else int(output.LineWriter.blocks)


def _as_json(text: str, code: int) -> int:
    """Print an error as a JSON object on standard output and as a sentence on standard error, and return `code`. If
    standard output is closed, return `PIPE_CLOSED` without the sentence. Other `OSError` of standard output are
    ignored.
    """
    from kafkalog.cli.output import ErrorLine, print_json

    try:
        print_json(ErrorLine(error=text, exit_code=int(code)))
    except OSError as closed:
        _write_out(sys.stdout)
        if isinstance(closed, BrokenPipeError):
            return PIPE_CLOSED
    _complain(text)
    return code


def _is_expected(error: BaseException) -> bool:
    if isinstance(error, click.ClickException | click.Abort | KeyboardInterrupt | OSError | MemoryError):
        return True
    from kafkalog.codec.common.errors import KafkaLogError

    return isinstance(error, KafkaLogError)


def _complain(text: str) -> None:
    from kafkalog.cli.output import said

    _write_out(sys.stdout)
    _write_out(sys.stderr, said(text))
