"""What `test_tiered.py` asks of a broker, of one with Aiven's plugin that encrypts and compresses.

    python tests/interop/try_aiven.py SOURCE

from the top of the checkout, with ``tests/support`` on the path; SOURCE is the plugin's repository, see
``tests/support/testkit/kafka/aiven_plugin.py``.  Prints a line for each trial, and fails where a broker does not serve
every record or copies something again.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from test_tiered import events_rebuilt, goes_on_after_its_remote_part, gone, where_it_is, whole_logs

from kafkalog.tiers.layouts import open_tier
from kafkalog.tiers.remote_tier import RemoteTier
from testkit.kafka import aiven_plugin, kafka_jars
from testkit.kafka.tiered_cluster import TieredCluster

VERSION = "4.3.0"


class AivenCluster(TieredCluster):
    """One broker with the plugin, and its keys."""

    def __init__(self, work: Path, class_path: str) -> None:
        self._keys = work / "keys"
        aiven_plugin.make_keys(self._keys, "first")
        own = {"transaction.state.log.num.partitions": 1}
        super().__init__(VERSION, work, (1,), **own)
        told = aiven_plugin.settings(class_path, self.remote, "tiers/", self._keys, compress=True, key="first")
        self[1].configure(told)

    def tier(self) -> RemoteTier:
        return open_tier(str(self.remote / "tiers"), keys={"first": str(self._keys / "first.private.pem")})


def main(source: Path) -> None:
    kafka_jars.setup(VERSION)
    with tempfile.TemporaryDirectory() as built:
        class_path = aiven_plugin.compiled(source, Path(built))
        for trial in (whole_logs, events_rebuilt, lost_in_place):
            with tempfile.TemporaryDirectory() as work, AivenCluster(Path(work), class_path) as cluster:
                trial(cluster, Path(work))
                print(trial.__name__, "every record served, nothing copied again")


def lost_in_place(cluster: TieredCluster, work: Path) -> None:
    goes_on_after_its_remote_part(cluster, gone, where_it_is, work / "made")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
