"""Represent the result of a recovery, and refuse a plan that must not be carried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.codec.common.wording import first_of
from kafkalog.codec.names import PARTITION_METADATA
from kafkalog.recovery.act.journal import LossOfRun
from kafkalog.recovery.act.runner import CompletedRuns
from kafkalog.recovery.broker.node.answer import NodeStart, NodeStartJson
from kafkalog.recovery.decide.choice import RecoveryChoice, advice_on_loss, sentence_of_loss
from kafkalog.recovery.decide.plan import Plan, plan_json
from kafkalog.recovery.decide.plan_json import ResultJson

__all__ = ["RecoveryResult", "losses_of", "nothing_done", "refuse_any_declined", "refuse_declined", "result_json"]


class RecoveryResult(Struct, frozen=True, kw_only=True):
    """Result of a recovery; `run_id` is None if there was nothing to do."""

    plan: Plan
    run_id: str | None
    quarantine: str | None
    earlier: CompletedRuns = field(default_factory=CompletedRuns)
    marker_withheld: str | None = None
    """why no clean-shutdown marker was written, although one was asked for; None otherwise"""
    notes: tuple[str, ...] = ()
    """sentences about the directory and its executions"""
    node: NodeStart | None = None
    """prediction for the node on the directory as it is now; None if it was not requested"""

    @property
    def leaves_a_fault(self) -> bool:
        """Whether the node does not start, does not serve or loses something on the directory as it is now, by one of
        its answers that count (`NodeStart.judged`). False if no prediction was requested.
        """
        return self.node is not None and not self.node.loses_nothing

    @property
    def leaves_a_problem(self) -> bool:
        """Whether nothing was changed, and the directory has a problem by its plan (`Plan.is_hurt_still`)."""
        return not self.changed and self.plan.is_hurt_still

    @property
    def completed(self) -> tuple[str, ...]:
        """Ids of earlier interrupted executions that were completed first."""
        return self.earlier.completed

    @property
    def declined(self) -> Mapping[str, str]:
        """Why partition directories were left as they are, by name."""
        return self.plan.declined

    @property
    def changed(self) -> bool:
        """Whether the directory was changed."""
        return self.run_id is not None or bool(self.completed)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan and the result as plain values, in the shape of `ResultJson`."""
        return plain(result_json(self))  # type: ignore[no-any-return]


def refuse_declined(plan: Plan, *, accept_loss: bool, earlier: CompletedRuns | None = None) -> None:
    """Raise `RecoveryRefused`, with the JSON report, if the plan is refused, or if it needs consent and `accept_loss`
    is False. The `reason` of a refused plan is `unreadable` if anything cannot be read, else `mode`. Without consent
    the reason is `loss`, and the error has advice. `earlier` are interrupted executions that were completed first, for
    the report.
    """
    advice: tuple[Advice, ...] = ()
    if plan.refusal is not None:
        reason, why = "unreadable" if plan.is_unreadable else "mode", plan.refusal
    elif plan.needs_consent and not accept_loss:
        reason, why, advice = "loss", _why_consent(plan), tuple(_advice_on_consent(plan))
    else:
        return
    refused = RecoveryRefused(why, reason=reason, report=result_json(nothing_done(plan, earlier)), advice=advice)
    refused.is_unreadable = plan.is_unreadable
    raise refused


def _why_consent(plan: Plan) -> str:
    """Return what in the plan needs consent, as clauses joined by "; ". They name the sound records and transaction
    markers that it would drop, and the partitions that would be renamed to `-stray`. They also name each directory that
    looks like a missing partition and would be moved away. Empty if there is none of these.
    """
    strays = plan.made_stray
    lost = [sentence_of_loss(plan.choice)] if plan.choice.own.drops_sound else []
    lost += [f"this would move away what looks like a partition: {each}" for each in plan.choice.sentences_of_renamed]
    if strays:
        lost.append(
            f"this would rename {first_of(strays, 1)} to -stray, as a broker does without {PARTITION_METADATA}: "
            "its records would be out of service, and a broker would make an empty partition in its place"
        )
    return "; ".join(lost)


def _advice_on_consent(plan: Plan) -> Iterator[Advice]:
    if plan.made_stray:
        yield Advice("to keep it in service, name the topic's id with {}", Ask.TOPIC_ID)
    if plan.choice.own.drops_sound:
        yield from advice_on_loss(plan.choice)
    else:
        yield Advice("to do so anyway, add {}", Ask.ACCEPT_LOSS)


def refuse_any_declined(plans: Sequence[Plan], *, accept_loss: bool) -> None:
    """Raise `RecoveryRefused` if `refuse_declined` declines any of the plans. Several refusals become one that names
    them all. If there is more than one plan, each refusal names its log directory.
    """
    refused = []
    for plan in plans:
        try:
            refuse_declined(plan, accept_loss=accept_loss)
        except RecoveryRefused as declined:
            refused.append(declined.about(plan.root) if len(plans) > 1 else declined)
    if refused:
        raise RecoveryRefused.of_several(refused)


def nothing_done(plan: Plan, earlier: CompletedRuns | None = None) -> RecoveryResult:
    """Return the result for a plan that is not carried out: without an execution id. `earlier` are interrupted
    executions that were completed first; None: none.
    """
    return RecoveryResult(plan=plan, run_id=None, quarantine=None, earlier=earlier or CompletedRuns())


def losses_of(choice: RecoveryChoice) -> list[LossOfRun]:
    """Return the losses of the plan by partition directory, for the journal. They are the number of lost records (None
    if unknown), whether it is exact, and the lost offset ranges. Both ends of a range are inclusive; the last offset is
    None if unknown. Partitions that are known to lose nothing are omitted.
    """
    return [
        LossOfRun(
            partition=name,
            records=measured.records_lost,
            is_exact=measured.is_exact,
            ranges=[(lost.first, lost.last) for lost in measured.lost],
        )
        for name, measured in choice.own_by_partition.items()
        if measured.records_lost != 0 or measured.lost or not measured.is_exact
    ]


def result_json(result: RecoveryResult) -> ResultJson:
    """Return the JSON structure of a result: the fields of its plan, followed by the fields of the recovery."""
    return ResultJson(
        **structs.asdict(plan_json(result.plan)),
        changed=result.changed,
        run_id=result.run_id,
        quarantine=result.quarantine,
        completed_runs=result.completed,
        superseded_runs=result.earlier.superseded,
        marker_withheld=result.marker_withheld or result.earlier.marker_withheld,
        node=None if result.node is None else shaped(result.node, NodeStartJson),
    )
