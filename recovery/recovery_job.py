"""Recover log directories as a job: plan each directory, obtain consent, and carry the plans out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec import Struct, structs

from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.log.directories.workers import Workers
from kafkalog.recovery.act.job import AgreedPlan, Job, carry_out, execute
from kafkalog.recovery.act.journal import JOURNAL
from kafkalog.recovery.act.runner import Earlier
from kafkalog.recovery.act.transaction import Keeping, Transaction
from kafkalog.recovery.act.unfinished_business import sentence_of_stranger
from kafkalog.recovery.broker.manager import StartResult
from kafkalog.recovery.decide.better_copies import Holding
from kafkalog.recovery.decide.choosing import compare_ways
from kafkalog.recovery.decide.closed_in_order import checks_of, left_by, left_in_place
from kafkalog.recovery.decide.forecasts import Forecasts, SurveyedDirectory, forecast
from kafkalog.recovery.decide.node_part import start_now, with_nodes
from kafkalog.recovery.decide.plan import Plan, plan_of, with_findings_of_segments
from kafkalog.recovery.decide.plan_json import ResultJson
from kafkalog.recovery.duplicates import holding, refuse_duplicates, with_better_copies
from kafkalog.recovery.facts.recovery_request import Recovery, Rules
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.unreadable import around_unreadable
from kafkalog.recovery.modes.table import Mode
from kafkalog.recovery.results import RecoveryResult, losses_of, nothing_done, refuse_declined, result_json
from kafkalog.recovery.safe.recovery import no_checks
from kafkalog.recovery.settled_rules import rules_for_each
from kafkalog.recovery.vouching import why_not_clean

__all__ = ["plan_survey", "recover_places"]


def plan_survey(found: Survey, workers: Workers, rules: Rules, *, compare: bool = True) -> Plan:
    """Make a plan for a surveyed log directory by settled rules; nothing on disk is changed. Directories that cannot be
    read are left out and named in the plan's `declined`. `choice.better_copies` names directories that hold more of a
    topic-partition than the kept one. `mark_clean` in the rules implies `full`.

    A partition that was closed cleanly is trusted only if the whole plan changes nothing, because a recovery removes
    the proof, the clean-shutdown marker. If there are changes, problems that remain after them are added as findings.
    Neither applies in mode set-aside.

    With `compare=False`, other ways of recovering are not simulated, records are not counted, and neither remaining
    problems nor better copies are added. Raises `StorageError` if something outside the unreadable directories cannot
    be read, `UsageError` for a setting that Kafka would refuse.
    """
    plan = _plan_survey(found, workers, rules, compare=compare)
    if not compare:
        return plan

    def holding_of(name: str) -> Holding | None:
        with survey(found.root, only=frozenset([name]), tolerant=True) as beside:
            return holding(_plan_survey(beside, workers, rules, compare=True), name)

    return with_better_copies(plan, holding_of)


def _plan_survey(surveyed: Survey, workers: Workers, rules: Rules, *, compare: bool) -> Plan:
    mark_clean = rules.mark_clean
    rules = structs.replace(rules, full=rules.full or mark_clean)  # as what a marker vouches for is verified
    tiering = rules.facts.tiering
    with_beginnings: Callable[[Plan], Plan] | None = None
    if rules.remote_logs is not None and rules.mode is Mode.REMOTE:
        with_beginnings = rules.remote_logs.beginnings(surveyed, rules.select, rules.facts)

    def plan_of_directory(directory: SurveyedDirectory, at_work: Workers) -> tuple[Plan, Forecasts]:
        forecasts = forecast(directory, at_work, counts=compare)
        choice = compare_ways(directory, forecasts) if compare else None
        return plan_of(directory, forecasts, choice, mark_clean=mark_clean), forecasts

    def make(readable: Survey, at_work: Workers) -> Plan:
        is_in_order, look = (no_checks, None) if mark_clean else checks_of(readable, tiering)
        directory = SurveyedDirectory(readable, rules, is_in_order, rules.copies, look)
        plan, forecasts = plan_of_directory(directory, at_work)
        if not rules.mode.spec.takes_whole_partitions and (plan.actions or with_beginnings):
            if is_in_order is no_checks:
                left = left_in_place(plan.actions, plan.findings, readable, tiering, plan.choice.by_partition)
            else:
                checked = forecasts.checked
                plan, forecasts = plan_of_directory(SurveyedDirectory(readable, rules, copies=rules.copies), at_work)
                left = left_by(plan.actions, plan.findings, readable, tiering, checked)
            if compare:
                remaining = list(left)
                needs_full = rules.may_need_full and any(problem.needs_full for problem in remaining)
                findings = [*plan.findings, *(problem.finding for problem in remaining)]
                plan = replace(plan, findings=findings, needs_full=needs_full)
        return with_findings_of_segments(plan, forecasts, rules) if compare else plan

    whole = around_unreadable(surveyed.without(rules.lacking), make, workers)
    return whole if with_beginnings is None else with_beginnings(whole)


class _Planned(Struct, kw_only=True):
    """One log directory: its plan, or interrupted executions that are completed instead."""

    root: str
    only: frozenset[str] | None
    rules: Rules
    plan: Plan | None = None
    """None: interrupted executions are completed"""


class _RecoveryJob(Job[Recovery, _Planned, RecoveryResult]):
    """Recover one or more log directories, or complete interrupted recoveries there."""

    def __init__(
        self,
        places: Sequence[tuple[str, frozenset[str] | None]],
        request: Recovery,
        keeping: Keeping,
        expected: Mapping[str, Plan | None],
        on_plan: Callable[[Plan], None] | None,
        workers: Workers,
    ) -> None:
        super().__init__([root for root, _only in places], keeping, request, expected)
        self._only = dict(places)
        self._rules: Mapping[str, Rules] = {}
        self._on_plan = on_plan
        self._workers = workers
        self._acted: list[_Planned] = []

    def admit(self, opened: Transaction) -> None:
        opened.refuse_foreign(self.request.complete)
        if isinstance(self.request, Rules) and self.request.rebuild_indexes:
            opened.refuse_unfinished()

    def prepare(self, opened: Mapping[str, Transaction]) -> None:
        refuse_duplicates(self.roots)
        self._rules = rules_for_each(self.request, self.roots)

    def plan(self, opened: Transaction) -> _Planned:
        planned = _Planned(root=opened.root, only=self._only[opened.root], rules=self._rules[opened.root])
        if opened.earlier.fitting:
            refuse_completing(opened.earlier, planned.rules)
        else:
            planned.plan = self._plan_of(planned)
        return planned

    def _plan_of(self, planned: _Planned) -> Plan:
        survey = self.files.enter_context(self._survey(planned, on_read=self._workers.read))
        return replace(plan_survey(survey, self._workers, planned.rules), request=self.request)

    def _survey(self, planned: _Planned, on_read: Callable[[str, int], None] | None = None) -> Survey:
        return survey(planned.root, only=planned.only, on_read=on_read, tolerant=True)

    def join(self, plans: list[tuple[str, _Planned]], *, is_whole: bool) -> list[tuple[str, _Planned]]:
        """Add forecasts of the node's start on all of its directories to the plans, in place, and return the same list.
        A directory with an interrupted execution has no plan, and gets none. `is_whole`, whether no directory was
        refused, is ignored here. Raises `StorageError` if a file that a start reads cannot be read, `UsageError` if the
        release asked about is not known.
        """
        asked = with_nodes([planned.plan for _root, planned in plans if planned.plan is not None], self._rules)
        by_root = {plan.root: plan for plan in asked}
        for root, planned in plans:
            planned.plan = by_root.get(root)
        return plans

    def changes(self, planned: _Planned) -> Plan | None:
        return planned.plan

    def compare(self, opened: Transaction, planned: _Planned) -> None:
        expected = self.expected.get(planned.root)
        if planned.plan is not None and expected is not None:
            _check_as_readable(expected, planned.plan)
        super().compare(opened, planned)

    def describe(self, planned: _Planned) -> None:
        if self._on_plan is not None and planned.plan is not None:
            self._on_plan(planned.plan)

    def consent(self, planned: _Planned) -> None:
        if planned.plan is None:
            return
        refuse_declined(planned.plan, accept_loss=self.request.accept_loss)

    def report(self, planned: _Planned) -> ResultJson | None:
        return None if planned.plan is None else result_json(nothing_done(planned.plan))

    def act(self, opened: Transaction, planned: _Planned) -> RecoveryResult:
        self._acted.append(planned)
        moved = () if opened.note is None else (opened.note,)
        notes = (*moved, *map(sentence_of_stranger, opened.runs.strangers()))
        plan = planned.plan
        if plan is None:
            completed = opened.complete(lambda: self._why_not_clean(planned, None))
            (now,) = with_nodes([self._plan_of(planned)], {planned.root: planned.rules})
            return RecoveryResult(plan=now, run_id=None, quarantine=None, earlier=completed, notes=notes)
        done = execute(
            opened,
            plan,
            lambda: self._survey(planned),
            withhold_marker=lambda: self._why_not_clean(planned, planned.only),
            workers=self._workers,
            drops=plan.choice.own.drops_sound,
            lost=losses_of(plan.choice),
        )
        node = plan.broker.node if done.run_id is None else start_now(opened.root, planned.rules, plan.broker.node)
        return RecoveryResult(
            plan=plan,
            run_id=done.run_id,
            quarantine=done.quarantine,
            earlier=done.earlier,
            marker_withheld=done.marker_withheld,
            notes=notes,
            node=node,
        )

    def finish(self, results: list[RecoveryResult]) -> list[RecoveryResult]:
        """Return the results. If there are several and a directory was changed, they get new predictions of the node's
        start, as all of its directories count.
        """
        if len(results) == 1 or not any(result.changed for result in results):
            return results
        return [_as_now(planned, result) for planned, result in zip(self._acted, results, strict=True)]

    def _why_not_clean(self, planned: _Planned, only: frozenset[str] | None) -> str | None:
        """Return why a clean-shutdown marker would be untrue for some partition; None if it is true. Surveys the
        directory and plans again from the files on disk. Raises `StorageError` if that fails.
        """
        with survey(planned.root, only=only, on_read=self._workers.read, tolerant=True) as found:
            again = structs.replace(planned.rules, full=True, mark_clean=False)
            plan = plan_survey(found, self._workers, again, compare=False)
            return why_not_clean(found, plan, planned.rules, self._workers)


def _as_now(planned: _Planned, result: RecoveryResult) -> RecoveryResult:
    forecast = result.plan.broker
    is_of_logs = forecast.outcome != StartResult.LOADED and not forecast.is_of_node
    if result.node is None or (result.run_id is None and is_of_logs):
        return result
    return structs.replace(result, node=start_now(planned.root, planned.rules, forecast.node))


def recover_places(
    places: Sequence[tuple[str, frozenset[str] | None]],
    request: Recovery,
    keeping: Keeping,
    expected: Mapping[str, Plan | None],
    on_plan: Callable[[Plan], None] | None,
    workers: Workers,
) -> list[RecoveryResult]:
    """Recover log directories; return the results in their order. Raises `RecoveryRefused`, `UsageError` and
    `StorageError` as `recover` does.

    * `places`: log directories with the names of the selected partition directories, None for all
    * `expected`: agreed plan by log directory
    """
    return carry_out(_RecoveryJob(places, request, keeping, expected, on_plan, workers))


def refuse_completing(earlier: Earlier, rules: Rules) -> None:
    """Raise `RecoveryRefused`, with advice, if completing an interrupted execution would lose readable records without
    consent. Consent is `accept_loss`, or mode kafka in both the interrupted execution and `rules`.
    """
    for run, _located in earlier.fitting:
        is_agreed = rules.accept_loss or run.journal.mode == rules.mode == Mode.KAFKA
        if run.name == JOURNAL and run.journal.drops and not is_agreed:
            raise RecoveryRefused(
                f"run {run.run_id} (mode {run.journal.mode}), which was cut short, drops records that can still be "
                "read; nothing was changed",
                reason="loss",
                advice=[
                    Advice("{} completes it all the same", Ask.ACCEPT_LOSS),
                    Advice("{} reverses it", Ask.UNDO, {"root": run.journal.root, "run": run.run_id}),
                ],
            )


def _check_as_readable(expected: AgreedPlan, plan: Plan) -> None:
    """Raise `RecoveryRefused` if a directory was readable when the plan was made and no longer is, or the reverse."""
    for name in sorted({*expected.survey.unreadable} ^ {*plan.survey.unreadable}):
        how = "can no longer be read" if name in plan.survey.unreadable else "can be read now"
        raise RecoveryRefused(f"{name} {how}, unlike when the plan was made; make a new one", reason="changed")
