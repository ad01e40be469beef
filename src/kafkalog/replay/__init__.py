"""Records of log directories into a live cluster, each exactly once, with a map from old offsets to new ones.

A transaction of the target holds both some records and how far the source was read, so whoever is killed goes on where
the last whole transaction ended.  What speaks to the target is `target`; nothing else here needs a client.
"""

from __future__ import annotations

from kafkalog.replay.offset_map import OffsetMap, Run
from kafkalog.replay.planning import ReplayPlan, plan_replay
from kafkalog.replay.request import Replay
from kafkalog.replay.run import ReplayResult, replay

__all__ = ["OffsetMap", "Replay", "ReplayPlan", "ReplayResult", "Run", "plan_replay", "replay"]
