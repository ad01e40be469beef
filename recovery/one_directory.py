"""One log directory on its way from a survey over a plan to a result."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.errors import RecoveryRefused
from kafkalog.log.directories.workers import Workers
from kafkalog.recovery.act.journal import JOURNAL
from kafkalog.recovery.act.runner import Earlier
from kafkalog.recovery.act.transaction import Transaction
from kafkalog.recovery.act.unfinished_business import sentence_of_stranger
from kafkalog.recovery.broker.manager import StartResult
from kafkalog.recovery.decide.choosing import compare_ways
from kafkalog.recovery.decide.closed_in_order import checks_of, is_for_full, left_by, left_in_place
from kafkalog.recovery.decide.forecasts import Forecasts, SurveyedDirectory, forecast
from kafkalog.recovery.decide.node_part import start_now, with_nodes
from kafkalog.recovery.decide.plan import Plan, plan_of
from kafkalog.recovery.facts.modes import Mode
from kafkalog.recovery.facts.rules import Rules
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.unreadable import around_unreadable
from kafkalog.recovery.options import RecoveryOptions
from kafkalog.recovery.results import RecoveryResult, losses_of, nothing_done, refuse_declined
from kafkalog.recovery.safe.recovery import no_checks
from kafkalog.recovery.vouching import why_not_clean

__all__ = ["OneDirectory", "plan_survey"]


def plan_survey(found: Survey, workers: Workers, options: RecoveryOptions, *, compare: bool = True) -> Plan:
    """Plan by rules that are settled.

    What was closed in order stays as it is only where nothing changes: a recovery removes the marker that vouched for
    it.
    """
    mark_clean = options.mark_clean
    rules = replace(options.rules, full=options.rules.full or mark_clean)  # as what a marker vouches for is verified
    tiering = rules.facts.tiering
    with_beginnings: Callable[[Plan], Plan] | None = None
    if options.remote_logs is not None and rules.mode is Mode.REMOTE:
        with_beginnings = options.remote_logs.beginnings(found, options.select, rules.facts)

    def plan_of_directory(directory: SurveyedDirectory, at_work: Workers) -> tuple[Plan, Forecasts]:
        forecasts = forecast(directory, at_work, counts=compare)
        choice = compare_ways(directory, forecasts) if compare else None
        return plan_of(directory, forecasts, choice, mark_clean=mark_clean), forecasts

    def make(readable: Survey, at_work: Workers) -> Plan:
        is_in_order, look = (no_checks, None) if mark_clean else checks_of(readable, tiering)
        directory = SurveyedDirectory(readable, rules, is_in_order, options.copies, look)
        plan, forecasts = plan_of_directory(directory, at_work)
        if rules.mode is not Mode.SET_ASIDE and (plan.actions or with_beginnings):
            if is_in_order is no_checks:
                left = left_in_place(plan.actions, plan.findings, readable, tiering, plan.choice.by_partition)
            else:
                plan, _ = plan_of_directory(SurveyedDirectory(readable, rules, copies=options.copies), at_work)
                left = left_by(plan.actions, plan.findings, readable, tiering, forecasts.checked)
            if compare:
                remaining = list(left)
                is_able = rules.mode in (Mode.SAFE, Mode.SALVAGE) and not rules.full
                needs_full = is_able and any(map(is_for_full, remaining))
                plan = replace(plan, findings=[*plan.findings, *remaining], needs_full=needs_full)
        return plan

    whole = around_unreadable(found.without(options.lacking), make, workers)
    return whole if with_beginnings is None else with_beginnings(whole)


class OneDirectory:
    """One log directory on its way from a plan to a result; its lock is held."""

    def __init__(
        self, opened: Transaction, only: frozenset[str] | None, options: RecoveryOptions, workers: Workers
    ) -> None:
        self._opened = opened
        self._only = only
        self._options = options
        self._workers = workers
        self._survey: Survey | None = None
        self._plan: Plan | None = None

    def close(self) -> None:
        """Close the files that the plan has open."""
        if self._survey is not None:
            self._survey.close()

    def plan(self, expected: Plan | None) -> None:
        """Plan what is to be done, but for what the node does; no plan if a run is to be completed."""
        if self._options.rules.rebuild_indexes:
            self._opened.refuse_unfinished()
        if self._opened.earlier.fitting:
            refuse_completing(self._opened.earlier, self._options)
            return
        self._make_plan(expected)

    @property
    def rules(self) -> Rules:
        """What is asked for of it."""
        return self._options.rules

    @property
    def planned(self) -> Plan | None:
        """The plan; None if a run is to be completed, or before there is one."""
        return self._plan

    def decide(self, plan: Plan, expected: Plan | None, on_plan: Callable[[Plan], None] | None) -> None:
        """Take the plan, in which the node was asked; `on_plan` is told of it, whether it can be carried out or not."""
        self._plan = plan
        if on_plan is not None:
            on_plan(plan)
        if expected is not None:
            _check_as_readable(expected, plan)
        refuse_declined(plan, accept_loss=self._options.accept_loss)
        self._opened.refuse_place(plan)

    def _make_plan(self, expected: Plan | None = None) -> Plan:
        found = self._survey = survey(self._opened.root, only=self._only, on_read=self._workers.read, tolerant=True)
        self._opened.refuse_changed(None if expected is None else expected.survey, found)
        self._plan = plan_survey(found, self._workers, self._options)
        return self._plan

    def report_of_nothing(self) -> dict[str, Any] | None:
        """Where the plan is not carried out, because this directory or another was declined; None without a plan."""
        return None if self._plan is None else nothing_done(self._plan).as_dict()

    def act(self) -> RecoveryResult:
        """Do it: complete what was cut short, or else what was planned."""
        if self._plan is None:
            completed = self._opened.complete(lambda: self._why_not_clean(None))
            (plan,) = with_nodes([self._make_plan()], {self._opened.root: self.rules})
            return RecoveryResult(plan, None, None, completed, notes=self._notes())
        plan, notes = self._plan, self._notes()
        earlier = self._opened.settle()
        if not plan.changes:
            return RecoveryResult(plan, None, None, earlier, notes=notes, node=plan.broker.node)
        done = self._opened.act(
            plan,
            lambda: survey(self._opened.root, only=self._only, tolerant=True),
            withhold_marker=lambda: self._why_not_clean(self._only),
            workers=self._workers,
            drops=plan.choice.own.drops_sound,
            lost=losses_of(plan.choice),
        )
        place = os.path.join(done.place, done.run_id)
        node = start_now(self._opened.root, self._options.rules)
        return RecoveryResult(plan, done.run_id, place, earlier, done.marker_withheld, notes, node)

    def as_now(self, result: RecoveryResult) -> RecoveryResult:
        """The result with what the node does after other directories of it were changed too."""
        forecast = result.plan.broker
        is_of_logs = forecast.outcome != StartResult.LOADED and not forecast.is_of_node
        if result.node is None or (result.run_id is None and is_of_logs):
            return result
        return replace(result, node=start_now(self._opened.root, self._options.rules))

    def _why_not_clean(self, only: frozenset[str] | None) -> str | None:
        return _why_not_clean(self._opened.root, only, self._options, self._workers)

    def _notes(self) -> tuple[str, ...]:
        moved = () if self._opened.note is None else (self._opened.note,)
        return (*moved, *map(sentence_of_stranger, self._opened.runs.strangers()))


def refuse_completing(earlier: Earlier, options: RecoveryOptions) -> None:
    """Raise `RecoveryRefused` where an execution that was cut short drops what nobody has agreed to drop now."""
    for run, _located in earlier.fitting:
        is_agreed = options.accept_loss or run.journal.mode == options.rules.mode == Mode.KAFKA
        if run.name == JOURNAL and run.journal.drops and not is_agreed:
            raise RecoveryRefused(
                f"run {run.run_id} (mode {run.journal.mode}), which was cut short, drops records that can still be "
                "read; nothing was changed",
                reason="loss",
                advice=[
                    Advice("{} completes it all the same", Ask.ACCEPT_LOSS),
                    Advice("{} reverses it", Ask.UNDO, {"run": run.run_id}),
                ],
            )


def _why_not_clean(root: str, only: frozenset[str] | None, options: RecoveryOptions, workers: Workers) -> str | None:
    """Read everything again from disk: a clean-shutdown marker must be true of every partition."""
    with survey(root, only=only, on_read=workers.read, tolerant=True) as found:
        again = replace(options, rules=replace(options.rules, full=True), mark_clean=False)
        return why_not_clean(found, plan_survey(found, workers, again, compare=False), options.rules, workers)


def _check_as_readable(expected: Plan, plan: Plan) -> None:
    """What was left out, and is to be read now, changes the plan; so does what was read and can no longer be."""
    for name in sorted({*expected.survey.unreadable} ^ {*plan.survey.unreadable}):
        how = "can no longer be read" if name in plan.survey.unreadable else "can be read now"
        raise RecoveryRefused(f"{name} {how}, unlike when the plan was made; make a new one", reason="changed")
