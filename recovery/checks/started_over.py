"""Detect, for `verify` and plans, that a controller began with empty metadata although a log directory already had
data.
"""

from __future__ import annotations

import os

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY

__all__ = ["findings_of_starting_over"]


def findings_of_starting_over(root: str) -> list[Finding]:
    """Return a list with one METADATA_INCONSISTENT error if the metadata log in the log directory `root` began again,
    empty, over data that existed before; else an empty list. The list is also empty if `root` has no metadata log or it
    cannot be read. Reads the metadata log.
    """
    if not os.path.isdir(os.path.join(root, CLUSTER_METADATA_DIRECTORY)):
        return []
    from kafkalog.cluster.kraft.quorum_log import read_quorum_log  # most directories have no metadata log

    try:
        log = read_quorum_log(root)
    except KafkaLogError:
        return []
    if log.started_over is None:
        return []
    detail = f"{log.started_over}; `quorum recover` can go back to them"
    return [Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, None, detail, log.directory)]
