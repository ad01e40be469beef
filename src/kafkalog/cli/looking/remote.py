"""`kafkalog remote`: the remote tier of tiered logs, segment by segment."""

from __future__ import annotations

from typing import Any

import click

from kafkalog.cli.options.common import JSON
from kafkalog.cli.options.numbers import Whole
from kafkalog.cli.options.paths import SERVER_PROPERTIES, log_directories, settings_in
from kafkalog.cli.options.remote import Remote, remote_options
from kafkalog.cli.options.strict import StrictCommand
from kafkalog.cli.options.times import AT
from kafkalog.cli.output import print_json, report_findings
from kafkalog.cli.shapes.remote_lines import rebuilt_line, segment_line, summary_line
from kafkalog.cli.tables import Column, Kind, print_table, size_text
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.names import REMOTE_LOG_METADATA_TOPIC
from kafkalog.inspect.remote import RemoteView, inspect_remote
from kafkalog.inspect.remote_rows import RemotePartition, RemoteRow
from kafkalog.tiers.segments import RemoteSegmentState
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import exit_code_of_findings

__all__ = ["command"]


class _WithRebuild(click.Command):
    """The command `remote`, which also has a subcommand; its first argument is the subcommand if it has that name, else
    a path.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the subcommand if it is the first argument, else of `remote` itself."""
        if args[:1] == [rebuild_command.name]:
            return rebuild_command.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(name="rebuild-metadata", cls=StrictCommand)
@click.argument("path", required=False, metavar="[PATH]", type=click.Path(path_type=str, readable=False))
@remote_options
@click.option("--into", metavar="DIR", required=True, help="The new directory for __remote_log_metadata-*.")
@click.option("--partitions", type=Whole(1, 100_000), metavar="N",
              help="Number of partitions of the topic [from the cluster's metadata in PATH].")  # fmt: skip
@AT
@JSON
def rebuild_command(
    path: str | None,
    remote: Remote,
    into: str,
    partitions: int | None,
    at: int | None,
    as_json: bool,
) -> int:
    """Write the events of __remote_log_metadata again, from the objects in a remote tier.

    For a cluster that has lost this topic: each complete segment gets the events of a finished copy.  PATH is a log
    directory with the cluster's metadata, which has the topic's id and number of partitions.  Put the written
    directories in place of those of a stopped broker.

    Exit code 0, 1 if a segment got no events, 4 if something could not be read.
    """
    from kafkalog.jobs.restore.events import RemoteMetadataRebuild, rebuild_remote_metadata
    from kafkalog.recovery.facts.topic_facts import read_topic_facts

    tier = remote.tier()
    if tier is None:
        raise UsageError("the objects are what the events are made of: give the remote tier with --remote")
    facts = read_topic_facts([] if path is None else [path])
    known = sum(topic == REMOTE_LOG_METADATA_TOPIC for topic, _ in facts.replicas)
    count = partitions or known
    if not count:
        raise UsageError("nothing here says how many partitions __remote_log_metadata has: give --partitions")
    if known and count != known:
        raise UsageError(f"--partitions is {count}, and by {facts.source} the topic has {known}")
    topic_id = facts.topic_ids.get(REMOTE_LOG_METADATA_TOPIC)
    broker = -1 if facts.node_id is None else facts.node_id
    request = RemoteMetadataRebuild(partitions=count, topic_id=topic_id, broker_id=broker, at=at)
    done = rebuild_remote_metadata(request, tier, target=into)
    if as_json:
        print_json(rebuilt_line(done))
    else:
        what = f"{counted(done.segments, 'segment')} in {counted(count, 'partition')} of {REMOTE_LOG_METADATA_TOPIC}"
        click.echo(escape_controls(f"written to {done.path}: the events of {what}"))
        if topic_id is None:
            click.echo("its topic id is new, because no PATH told that of the cluster: a broker does not know it")
    report_findings(done.findings)
    return exit_code_of_findings(done.findings)


@click.command(name="remote", cls=_WithRebuild)
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=str, readable=False))
@remote_options
@click.option("--all", "everything", is_flag=True, help="Also list segments whose deletion has finished.")
@AT
@SERVER_PROPERTIES
@JSON
def command(
    paths: tuple[str, ...],
    remote: Remote,
    everything: bool,
    at: int | None,
    server_properties: str | None,
    as_json: bool,
) -> int:
    """Show the remote segments of tiered logs: what the events say, what is there, what is local too, what is wrong.

    PATH are log directories, of one broker or of several; __remote_log_metadata in them says which segments were
    copied.  With --remote the objects are listed and compared with the events; with --remote alone only the listing
    is used.  Tiered logs are not read, local or remote: `verify --remote` does that.  See `kafkalog remote
    rebuild-metadata --help` for lost events.

    Exit code 0 if all is well, 1 if something was found, 4 if something could not be read.
    """
    if server_properties is not None:
        if paths:
            raise UsageError("--server-properties replaces PATH here: give one of them")
        paths = log_directories(server_properties, settings_in(server_properties))
    if not paths and remote.uri is None:
        raise UsageError("give a log directory (PATH), a remote tier (--remote), or both")
    view = inspect_remote(*paths, remote=remote.tier(), at=at)
    rows = [row for row in view.rows if everything or as_json or not _is_gone(row)]
    if as_json:
        for row in rows:
            print_json(segment_line(row))
        print_json(summary_line(view))
    else:
        _print(view, rows)
    report_findings(view.findings)
    return exit_code_of_findings(view.findings)


def _is_gone(row: RemoteRow) -> bool:
    """Whether the remote segment was deleted and the tier does not list it."""
    deleted = RemoteSegmentState.DELETE_SEGMENT_FINISHED
    return row.segment is not None and row.segment.state is deleted and not row.is_listed


def _state(row: RemoteRow) -> str:
    return "unknown" if row.segment is None else row.segment.state.name.lower().removeprefix("copy_segment_")


_WORDS = {True: "yes", False: "no", None: ""}


def _print(view: RemoteView, rows: list[RemoteRow]) -> None:
    print_table(
        _title(view),
        [
            "topic",
            "partition",
            "base",
            "end",
            Column("epochs", drop=4),
            Column("bytes", Kind.BYTES, drop=1),
            Column("state", wraps=True),
            Column("present", if_any=True),
            "local",
            Column("belongs", drop=2),
            Column("segment id", drop=3),
        ],
        [
            [
                row.topic,
                row.partition,
                row.base_offset,
                None if row.segment is None else row.segment.end_offset,
                "" if row.segment is None else " ".join(str(epoch.epoch) for epoch in row.segment.leader_epochs),
                row.log_bytes,
                _state(row),
                _WORDS[row.is_listed],
                _WORDS[row.is_local],
                _WORDS[row.belongs],
                row.id,
            ]
            for row in rows
        ],
    )
    for partition in view.partitions:
        click.echo(escape_controls(_sentence(partition)))
    if view.others:
        click.echo(escape_controls(f"not of this layout: {first_of(view.others, 3)}"))


def _title(view: RemoteView) -> str:
    events = f"events of {counted(len(view.sources), 'metadata log')}" if view.sources else "no events"
    listing = "not listed" if view.place is None else f"listed in {view.place}"
    return escape_controls(f"remote segments ({events}; {listing})")


def _sentence(partition: RemotePartition) -> str:
    """Return a sentence about a tiered partition. It has the offsets in the remote tier and their size, and the start
    of the local part in each directory. It also has the log start offset if this is known. Without events about the
    partition, it has the number of listed remote segments instead of the offsets.
    """
    size = sum(row.log_bytes or 0 for row in partition.rows if not _is_gone(row))
    copied = "nothing is remote" if partition.copied_to is None else (
        f"offsets {partition.stretches[0].first} to {partition.copied_to - 1} are remote, {size_text(size)}"
    )  # fmt: skip
    if not partition.has_events:
        copied = f"{counted(len(partition.rows), 'segment')} listed, {size_text(size)}, of which no event here tells"
    local = "" if not partition.local else "; local from " + ", ".join(
        str(local_part.begins) for local_part in partition.local.values()
    )  # fmt: skip
    start = "" if partition.log_start is None else f"; the log starts at {partition.log_start}"
    return f"{partition.topic}-{partition.partition}: {copied}{local}{start}"
