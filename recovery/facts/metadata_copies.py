"""Define advice about a damaged metadata log.

Every controller and broker has a copy of it. A start cuts it at the first damage, and a controller that has lost
records that it acknowledged may elect one that never had them. A node that only follows fetches the log again from the
leader (`KafkaRaftClient`).
"""

from __future__ import annotations

from typing import Final

__all__ = ["IN_PLACE_OF_A_WAY", "OTHER_COPIES"]

OTHER_COPIES: Final = (
    "`kafkalog quorum show` compares the copies of other nodes, if the cluster has any, and a plan that includes the "
    "metadata log tells what can be mended here"
)
IN_PLACE_OF_A_WAY: Final = (
    "every controller and broker has a copy of the metadata log: give them all to `kafkalog quorum show`; while the "
    "controllers have a majority, a broker fetches the log again if its __cluster_metadata-0 is moved away first, and "
    "a controller is formatted again and added back; a lost majority is brought back by `kafkalog quorum recover`"
)
