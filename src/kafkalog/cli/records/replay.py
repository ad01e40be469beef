"""`kafkalog replay`: write the records of log directories into a live cluster, each exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kafkalog.cli.confirm import confirm
from kafkalog.cli.interrupt import held_back
from kafkalog.cli.lines import print_lines
from kafkalog.cli.options.common import CONFIG, JSON, REPLICA, YES
from kafkalog.cli.options.numbers import Whole
from kafkalog.cli.options.pairs import pairs_of
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.requests import request_fields, request_option
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.options.times import AT, time_range_options
from kafkalog.cli.output import remark, report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.shapes.replay_lines import plan_lines, result_lines
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.codec.common.errors import UsageError
from kafkalog.log.disk.files import read_small
from kafkalog.log.disk.process import processors
from kafkalog.replay.request import Replay
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode, exit_code_of_findings

if TYPE_CHECKING:
    from kafkalog.cluster.transactions.undecided import Waiting
    from kafkalog.replay.planning import PlannedTopic, ReplayPlan
    from kafkalog.replay.run import ReplayResult

__all__ = ["command"]

_SETTINGS_BYTES = 1 << 20
_INTERRUPTED = "interrupted; what is committed stays in the target, and the same command goes on from there"


@click.command(name="replay")
@PATHS
@click.option("--bootstrap-server", metavar="HOST:PORT", required=True, help="HOST:PORT of a broker of the target "
    "cluster.")
@click.option("--map", "map_path", metavar="FILE",
              help="New Parquet file for every record's old and new offset [replay-ID.parquet].")  # fmt: skip
@selection_options
@click.option(
    "--start-offset", metavar="N", type=Whole(0, (1 << 63) - 1), help="First offset to replay in each partition "
    "(inclusive)."
)
@click.option("--end-offset", metavar="N", type=Whole(0, (1 << 63) - 1), help="Offset after the last one (exclusive).")
@time_range_options
@request_option(Replay, "renamed")
@request_option(Replay, "prefix")
@request_option(Replay, "identity")
@click.option("--replication-factor", metavar="N", type=Whole(1, 32_767),
              help="Replication factor of created topics [the cluster's default].")  # fmt: skip
@request_option(Replay, "append")
@request_option(Replay, "keep_settings")
@request_option(Replay, "accept_loss")
@click.option("--open-transactions", type=click.Choice(["keep", "abort"]), default="keep", show_default=True,
              help="Handling of undecided transactions: stop before their records in each partition, or abort "
              "them.")  # fmt: skip
@click.option("--without-groups", is_flag=True, help="Leave out the committed offsets of consumer groups.")
@request_option(Replay, "compression")
@request_option(Replay, "bytes_per_second")
@click.option("--client-config", metavar="FILE",
              help="librdkafka's own settings for the connection, as NAME=VALUE lines: SASL, TLS.")  # fmt: skip
@CONFIG
@AT
@YES
@JSON
@REPLICA
@paths_in_properties
def command(
    paths: tuple[str, ...],
    bootstrap_server: str,
    map_path: str | None,
    replication_factor: int | None,
    client_config: str | None,
    yes: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Write the records of log directories into a live cluster, each exactly once.

    Keeps partitions, the order of offsets, timestamps, keys and headers; writes only committed transactions. Creates
    topics with their old settings, as far as the directories have them, but so that nothing expires, and reports the
    records that the old retention would have removed.  If interrupted, run the same command again: it continues where
    it stopped.  Prints its plan first, and acts with --yes or after a question.

    A transaction without a marker is decided by `__transaction_state`, if that is among the paths.  Records behind a
    transaction that stays undecided are left behind and counted; --open-transactions abort treats it as aborted, as its
    coordinator would after the timeout.

    Exit code 3 if it refused; 1 if something was left behind, even if other records were written; else 2 if something
    was written; else 0 if nothing was found, 1 if something was, 4 if something could not be read.
    """
    from kafkalog.replay.planning import plan_replay
    from kafkalog.replay.run import check_target, replay

    fields = {
        **request_fields(Replay, given),
        "renamed": pairs_of("--rename", given["renamed"], "OLD=NEW", may_be_empty=False),
    }
    request = Replay(
        replica=given["replica"], select=given["chosen"], now=given["at"], with_groups=not given["without_groups"],
        replication=-1 if replication_factor is None else replication_factor,
        configs=pairs_of("--config", given["config"]), client={} if client_config is None else _client(client_config),
        start_offset=given["start_offset"], end_offset=given["end_offset"], start_time=given["start_time"],
        end_time=given["end_time"], abort_open=given["open_transactions"] == "abort", **fields,
    )  # fmt: skip
    plan = plan_replay(request, *paths, jobs=processors())
    report_findings((*plan.findings, *plan.damaged))
    if plan.problem is not None:
        remark(plan.problem)
    _print_plan(plan, bootstrap_server, as_json=as_json)
    plan.refuse(request)
    if not yes:

        def look() -> None:
            for name in check_target(plan, bootstrap_server, request):
                remark(f"{name} is there already, and keeps its settings")

        confirm(f"Write this to {escape_controls(bootstrap_server)}?", look=look)
    with held_back(_INTERRUPTED) as check, ByteProgress("replaying", plan.size) as progress:
        result = replay(
            request, *paths, target=bootstrap_server, map_path=map_path, plan=plan, on_bytes=progress.advance,
            check=check,
        )  # fmt: skip
    report_findings(result.findings)
    _print_result(result, plan.waiting, as_json=as_json)
    if plan.waiting:
        return ExitCode.FINDINGS
    if result.changed:
        return ExitCode.CHANGED
    return exit_code_of_findings((*plan.findings, *result.findings))


def _client(path: str) -> dict[str, str]:
    try:
        text = read_small(path, _SETTINGS_BYTES).decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file") from None
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


def _print_plan(plan: ReplayPlan, bootstrap: str, *, as_json: bool) -> None:
    if as_json:
        print_lines(plan_lines(plan))
        return
    rows = [
        [topic.name, topic.target if topic.target != topic.name else None, len(topic.partitions), topic.partition_count,
         sum(partition.size for partition in topic.partitions.values()), topic.settings.expired or None,
         "yes" if topic.settings.is_compacted else None]
        for topic in plan.topics
    ]  # fmt: skip
    print_table(
        f"to be written to {bootstrap}",
        [
            "topic",
            Column("there", if_any=True),
            "partitions",
            "of",
            Column("bytes of the logs", Kind.BYTES),
            Column("would expire", if_any=True),
            Column("compacted", if_any=True),
        ],
        rows,
    )
    with SentenceWriter() as writer:
        topics: dict[str, list[str]] = {}
        for topic in plan.topics:
            for remark in _remarks(topic):
                topics.setdefault(remark, []).append(topic.name)
        for remark, names in topics.items():
            about = "all topics" if len(names) == len(plan.topics) > 1 else ", ".join(names)
            writer.write(escape_controls(f"{about}: {remark}"))
        writer.write(escape_controls(
            f"how far this has come is kept in the target, in the compacted topic {plan.progress_topic}"
        ))  # fmt: skip
    _print_waiting(plan.waiting)


def _print_waiting(waiting: Sequence[Waiting]) -> None:
    if not waiting:
        return
    rows = [
        [f"{each.topic}-{each.partition}", each.first_offset, each.records, one.producer_id, one.transactional_id,
         one.state, one.records]
        for each in waiting
        for one in each.producers
    ]  # fmt: skip
    print_table(
        "left behind, because transactions are open",
        [
            "partition",
            "from offset",
            "records of others",
            "open: producer",
            Column("transactional id", if_any=True),
            Column("state", if_any=True),
            "its records",
        ],
        rows,
    )
    with SentenceWriter() as writer:
        writer.write(
            f"{sum(each.records for each in waiting)} record(s) of other producers wait behind open transactions and "
            "are left behind; --open-transactions abort writes them, without the records of those transactions"
        )


def _remarks(topic: PlannedTopic) -> list[str]:
    settings = topic.settings
    lines = []
    if topic.missing:
        numbers = ", ".join(map(str, topic.missing))
        lines.append(f"no log here for partition(s) {numbers}; they are made and stay empty")
    if settings.expired:
        whose = "Kafka's default" if "retention.ms" in settings.assumed else "the old"
        lines.append(f"{whose} retention would delete {settings.expired} offset(s) at once")
    if settings.is_compacted:
        lines.append("the old settings would compact it at once")
    if settings.put_back:
        old = ", ".join(
            f"{name}={value}{' (the default: no value of its own is known)' * (name in settings.assumed)}"
            for name, value in settings.put_back.items()
        )
        lines.append(f"if it is made, it is so that nothing expires; to put back later: {old}")
    if settings.left_out:
        lines.append(f"not taken over: {', '.join(settings.left_out)}")
    return lines


def _print_result(result: ReplayResult, waiting: Sequence[Waiting], *, as_json: bool) -> None:
    if as_json:
        print_lines(result_lines(result, waiting))
        return
    with SentenceWriter() as writer:
        left = sum(each.records for each in waiting)
        if waiting:
            writer.write(
                f"{left} record(s) of other producers were left behind in {len(waiting)} partition(s), where "
                "transactions are open; the same command with --open-transactions abort writes them"
            )
        if not result.changed:
            writer.write("nothing else was left to do" if waiting else "nothing was left to do")
            return
        for (topic, partition), count in sorted(result.without_time.items()):
            writer.write(escape_controls(
                f"{topic}-{partition}: {count} record(s) have no time above 1970 and were given that of now"
            ))  # fmt: skip
        for moved in result.left:
            writer.write(escape_controls(
                f"group {moved.group} has committed for {moved.topic}-{moved.partition} in the target already, and was "
                f"left there; offset {moved.source_offset} would be {moved.offset}"
            ))  # fmt: skip
        groups = len({each.group for each in result.moved})
        writer.write(
            f"{result.records} record(s) written, {len(result.made)} topic(s) made, {len(result.moved)} offset(s) of "
            f"{groups} group(s) set; where each record is: {escape_controls(result.map_path)}"
        )
        if result.moved:
            writer.write(
                "Offsets of a group that nobody uses expire after offsets.retention.minutes (7 days by default) "
                "from now on."
            )
