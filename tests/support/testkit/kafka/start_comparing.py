"""A forecast of a node's start beside what a real node did: what differs, in words."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from kafkalog.recovery.broker.node.answer import ConsequenceKind, NodeAnswer, StartOutcome
from kafkalog.recovery.broker.node_start import node_start
from testkit.kafka.kafka_oracle import Json
from testkit.kafka.start_stages import Cluster, Stage
from testkit.kafka.start_trials import Observed, Trial

__all__ = ["Forecast", "differences", "forecast"]

_WORDS = 60
_GOES_BACK = (
    ConsequenceKind.METADATA_LOG_DROPPED,
    ConsequenceKind.METADATA_GOES_BACK,
    ConsequenceKind.METADATA_MAY_GO_BACK,
)
"""consequences whose sentence says that the newest metadata is lost, without names"""
_LOSES = (
    ConsequenceKind.STRAY,
    ConsequenceKind.DELETED,
    ConsequenceKind.EXPECTED_STRAY,
    ConsequenceKind.EMPTY_AGAIN,
    ConsequenceKind.FUTURE_PROMOTED,
    ConsequenceKind.METADATA_OVERWRITTEN,
)


@dataclass(frozen=True)
class Forecast:
    """What was foretold, as it is written down before the start."""

    outcome: str
    exception: str | None = None
    message: str | None = None
    file: str | None = None
    condition: str | None = None
    strays: list[str] = field(default_factory=list)
    """partition directories that the start renames or removes, expected or not"""
    kinds: list[str] = field(default_factory=list)
    """of all consequences"""
    names: list[str] = field(default_factory=list)
    """partition directories that a consequence names"""


def forecast(trial: Trial, made: Stage, place: Path) -> Forecast:
    """Ask the model about the damaged copy at `place`."""
    cluster = Cluster(made, place)
    properties = {name: str(value) for name, value in cluster.configuration(trial.node).items()}
    roots = [str(each) for each in cluster.directories(trial.node)]
    others = [node for node in (*trial.base.voters, *trial.base.zookeepers) if node != trial.node]
    controllers = [str(cluster.directories(node)[0]) for node in others]
    start = node_start(roots, properties=properties, release=trial.base.version, controllers=controllers)
    return _written(start.answers[0])


def _written(answer: NodeAnswer) -> Forecast:
    renamed = (ConsequenceKind.STRAY, ConsequenceKind.DELETED, ConsequenceKind.EXPECTED_STRAY)
    strays = sorted(name for each in answer.consequences if each.kind in renamed for name in each.names)
    names = sorted({name for each in answer.consequences for name in each.names})
    kinds = sorted({str(each.kind) for each in answer.consequences})
    return Forecast(
        str(answer.outcome), answer.exception, answer.message, answer.file, answer.condition, strays, kinds, names
    )


def differences(foretold: Forecast, found: Observed, place: Path, trial: Trial) -> list[str]:
    """Everything in which the real start was another than the one that was foretold; empty if nothing was."""
    moved = sorted({*found.strays, *found.deleted})
    is_expected = str(ConsequenceKind.EXPECTED_STRAY) in foretold.kinds and moved == foretold.strays
    is_unasked = trial.damage == "unknown-partition" and foretold.kinds == [str(ConsequenceKind.NOT_SERVING)]
    if foretold.outcome != found.outcome and not (
        (is_expected and foretold.outcome == StartOutcome.STARTS) or is_unasked
    ):
        return [f"foretold {foretold.outcome}, it was {found.outcome}"]
    if found.outcome is StartOutcome.FAILS:
        return _failures(foretold, found, place)
    told = []
    if found.outcome is not StartOutcome.NOT_SERVING or "does not serve" not in found.notes:
        moved = sorted({*found.strays, *found.deleted})
        if moved != sorted({name.split(".")[0] if "-future" in name else name for name in foretold.strays}):
            told.append(f"foretold strays {foretold.strays}, there were {moved}")
    told += _service(foretold, found, trial)
    return told


def _failures(foretold: Forecast, found: Observed, place: Path) -> list[str]:
    told = []
    exception = (foretold.exception or "").rpartition(".")[2]
    if exception not in found.words:
        told.append(f"foretold {exception}, which the node does not print")
    words = (foretold.message or "")[:_WORDS]
    if exception != "NullPointerException" and words not in found.words:
        told.append(f"foretold the words {words!r}, which the node does not print")
    named = set(re.findall(rf"{re.escape(str(place))}[^\s,'\"`:\]]*", found.words))
    file = foretold.file or ""
    if named and not any(file.startswith(each.rstrip(".")) or each.startswith(file) for each in named):
        told.append(f"foretold a fault of {os.path.basename(file)}, the node names {sorted(named)[:3]}")
    return told


def _service(foretold: Forecast, found: Observed, trial: Trial) -> list[str]:
    told = []
    losing = {str(each) for each in _LOSES} & set(foretold.kinds)
    anew = str(ConsequenceKind.METADATA_OVERWRITTEN) in foretold.kinds
    topics = {name.rpartition("-")[0] for name in foretold.strays}
    goes_back = {str(each) for each in _GOES_BACK} & set(foretold.kinds)
    if not anew and not goes_back and not set(found.topics_lost) <= topics:
        told.append(f"topics {found.topics_lost} are gone")
    if found.acls_lost and not anew and not goes_back:
        told.append(f"{found.acls_lost} access control entries are gone")
    if found.records_lost and not losing and not trial.damage.startswith("log-"):
        told.append(f"{found.records_lost} records are gone")
    quiet = found.outcome in (StartOutcome.NOT_SERVING, StartOutcome.DIRECTORY_OFFLINE) or losing
    if not quiet and [note for note in found.notes if "not" in note or "no offsets" in note]:
        told.append(f"it does not serve: {found.notes}")
    return told


def as_json(foretold: Forecast) -> Json:
    """A forecast as it is written down."""
    return dict(foretold.__dict__)
