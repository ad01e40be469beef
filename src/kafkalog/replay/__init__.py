"""Replay of records from log directories into a live cluster, each exactly once, with a map from old offsets to new
ones.

A transaction in the target contains both records and the source position at which they end, so a replay that was killed
continues where the last committed transaction ended. `target` is the only module that uses a Kafka client.
"""

from __future__ import annotations

from kafkalog.replay.offset_map import OffsetMap, Run
from kafkalog.replay.planning import ReplayPlan, plan_replay
from kafkalog.replay.request import Replay
from kafkalog.replay.run import ReplayResult, replay

__all__ = ["OffsetMap", "Replay", "ReplayPlan", "ReplayResult", "Run", "plan_replay", "replay"]
