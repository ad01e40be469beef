"""`kafkalog quorum recover`: make a plan, ask for consent, act. Nothing is destroyed, and everything can be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click
from msgspec import structs

from kafkalog.cli.acting import Acting, Declined
from kafkalog.cli.clusters.quorum_text import print_quorum_plan, print_quorum_result
from kafkalog.cli.options.common import CONFIG, JSON, YES
from kafkalog.cli.options.endpoints import Endpoint, NodeEndpoint, VoterList
from kafkalog.cli.options.numbers import BROKER_ID
from kafkalog.cli.options.paths import settings_in
from kafkalog.cli.options.requests import request_option
from kafkalog.cli.options.strict import StrictCommand
from kafkalog.cli.options.times import AT
from kafkalog.cli.output import print_json
from kafkalog.cli.settings import parse_settings
from kafkalog.cli.shapes.quorum_recover_lines import QuorumRecoverLine, plan_line, result_line
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.names import parse_java_long
from kafkalog.jobs.quorum.planned import QuorumPlan
from kafkalog.jobs.quorum.request import QuorumRecovery, QuorumWay
from kafkalog.jobs.quorum.run import plan_quorum, recover_quorum
from kafkalog.words.exit_codes import ExitCode, exit_code_of_change, sentence_of

__all__ = ["recover_command"]

_DIRECTORY = click.Path(path_type=str, readable=False)


@click.command(name="recover", cls=StrictCommand)
@click.argument("paths", nargs=-1, metavar="[PATH...]", type=_DIRECTORY)
@click.option("--standalone", metavar="DIR", type=_DIRECTORY, help="This controller alone becomes the quorum.")
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    type=NodeEndpoint(),
    help="New endpoint of a controller; may be repeated.",
)
@click.option("--voters", type=VoterList(), help="The endpoints of all controllers, in the form of "
    "controller.quorum.voters.")
@click.option("--from-broker", metavar="DIR", type=_DIRECTORY, help="Make a controller from this broker's copy of the "
    "metadata.")
@click.option("--node", type=BROKER_ID, metavar="ID", help="With --from-broker: the new controller's node id.")
@click.option("--into", metavar="DIR", help="With --from-broker: the new controller's log directory, new or empty.")
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    metavar="DIR",
    type=_DIRECTORY,
    help="A broker's log directory with a copy of the metadata, which is only read; may be repeated.",
)
@click.option("--listener", metavar="NAME", help="Name of the controllers' listener, if no file has it [CONTROLLER].")
@click.option("--dynamic", is_flag=True, help="Convert static voters to dynamic ones.")
@click.option("--others-are-gone", is_flag=True, help="Confirm that no other controller of the old quorum will ever "
    "be started again.")
@click.option("--accept-loss", is_flag=True, help="Proceed even if records that can still be read would be dropped.")
@click.option(
    "--properties",
    "properties",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, readable=False),
    help="Properties file of a controller that moved, so that the printed setting keeps its other listeners; may be "
    "repeated.",
)
@CONFIG
@AT
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@request_option(QuorumRecovery, "quarantine")
@YES
@JSON
def recover_command(
    paths: tuple[str, ...],
    standalone: str | None,
    from_broker: str | None,
    dry_run: bool,
    quarantine: str | None,
    yes: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Bring a lost KRaft quorum back, under the controllers' locks and with journals; `undo` reverses it.

    --standalone DIR makes one controller the quorum; PATH are then other copies, which are only read.  Without it the
    controllers at all PATH are the quorum, at the endpoints that --endpoint or --voters gives.  --from-broker makes a
    controller from a broker's copy.  In each case the quorum continues with the best of the given logs.

    Voters whose directories are not given must never start again with their disks; --others-are-gone confirms that.
    Records that only they had are lost.

    Exit code 0 if there was nothing to do, if --into DIR was written or with --dry-run, 1 if there was nothing to do
    and a controller does not start, 2 if something was changed in place, 3 if it refused.
    """
    targets = (standalone,) if standalone is not None else () if from_broker is not None else paths
    wanted = QuorumRecovery(
        way=_way(paths, standalone, from_broker),
        beside=paths if standalone is not None or from_broker is not None else (),
        brokers=((from_broker,) if from_broker is not None else ()) + given["brokers"],
        endpoints=_endpoints([*given["endpoints"], *(given["voters"] or ())], given["node"]),
        listener=given["listener"],
        node=given["node"],
        into=given["into"],
        voters=None if given["voters"] is None else tuple(sorted(each[0] or 0 for each in given["voters"])),
        becomes_dynamic=given["dynamic"],
        others_are_gone=given["others_are_gone"],
        accept_loss=given["accept_loss"],
        at=given["at"],
        config=_settings(given["config"]),
        properties=_properties(given["properties"]),
        quarantine=quarantine,
    )
    if dry_run and yes:
        raise UsageError("--dry-run changes nothing: --yes cannot be used with it")
    if from_broker is not None and quarantine is not None:
        raise UsageError("--from-broker changes no directory, so that nothing is kept: leave --quarantine out")

    def reports(error: Declined, plans: Sequence[QuorumPlan]) -> list[QuorumRecoverLine]:
        """Return one line with the refusal: that of the last plan that was made, or one with the way alone if there is
        none.
        """
        planned = plan_line(plans[-1]) if plans else QuorumRecoverLine(way=wanted.way)
        return [structs.replace(planned, refusal=sentence_of(error))]

    acting = Acting(yes=yes, as_json=as_json, show=print_quorum_plan, reports=reports)
    with acting.on(targets, quarantine):
        return _planned_and_done(wanted, targets, acting, dry_run=dry_run)


def _way(paths: Sequence[str], standalone: str | None, from_broker: str | None) -> QuorumWay:
    if standalone is not None and from_broker is not None:
        raise UsageError("--standalone keeps a controller and --from-broker makes one: give one of them")
    if standalone is not None:
        return QuorumWay.STANDALONE
    if from_broker is not None:
        return QuorumWay.FROM_BROKER
    if not paths:
        raise UsageError("give --standalone DIR, --from-broker DIR, or the log directories of all controllers")
    return QuorumWay.TOGETHER


def _settings(given: tuple[str, ...]) -> dict[str, str]:
    names = Counter(text.partition("=")[0].strip() for text in given)
    for name, count in names.items():
        if count > 1:
            raise UsageError(f"--config {name} is given {count} times: give it once")
    return parse_settings(given)


def _properties(paths: Sequence[str]) -> dict[int, dict[str, str]]:
    """Return the settings of brokers or controllers by node id, read from one properties file for each node. Raises
    `UsageError` if a file is not a properties file, or if two files are of the same node. Raises it also if a file has
    no `node.id` (or `broker.id`) that is a number from 0 on. Raises `StorageError` if a file cannot be read.
    """
    found: dict[int, dict[str, str]] = {}
    for path in paths:
        settings = settings_in(path)
        text = settings.get("node.id", settings.get("broker.id", "")).strip()
        node = parse_java_long(text, 32)
        if node is None or node < 0:
            raise UsageError(f"{path} sets no node.id, so that nobody knows whose properties these are")
        if found.setdefault(node, settings) is not settings:
            raise UsageError(f"{path} is the second file of node {node}: give one")
    return found


def _endpoints(given: Sequence[Endpoint], only: int | None) -> dict[int, tuple[str, int]]:
    found: dict[int, tuple[str, int]] = {}
    for node, host, port in given:
        named = only if node is None else node
        if named is None:
            raise UsageError(f"--endpoint {host}:{port} does not say which controller: give ID=HOST:PORT")
        if named in found:
            raise UsageError(f"two endpoints are given for controller {named}: give one")
        found[named] = host, port
    return found


def _planned_and_done(
    wanted: QuorumRecovery, targets: Sequence[str], acting: Acting[QuorumPlan], *, dry_run: bool
) -> int:
    expected: QuorumPlan | None = None
    if dry_run or acting.asks:
        expected = plan_quorum(wanted, *targets)
        expected.close()
        acting.planned(expected)
        if dry_run:
            if acting.as_json:
                print_json(plan_line(expected))
            return ExitCode.CLEAN
        if expected.changes_anything:
            acting.agree(_question(expected))
    on_plan = acting.planned if expected is None else acting.plans.append
    result = recover_quorum(wanted, *targets, expected=expected, on_plan=on_plan)
    acting.tell(result_line(result), lambda: print_quorum_result(result))
    if not result.changed and any(run.never_starts for run in result.runs):
        return ExitCode.FINDINGS
    return exit_code_of_change(result.changed, is_new=wanted.into is not None)


def _question(plan: QuorumPlan) -> str:
    names = ", ".join(str(member.node) for member in plan.members)
    dead = ", ".join(plan.stay_dead)
    whose = "their disks" if len(plan.others) > 1 else "its disk"
    never = f", and never start {dead} again with {whose}" if dead else ""
    return f"Make {names} the quorum{never}?"
