"""Whether a controller has begun the metadata anew over what was there, for `verify` and plans."""

from __future__ import annotations

import os

from kafkalog.cluster.kraft.quorum_log import read_quorum_log
from kafkalog.codec.advice import Ask, Sentence
from kafkalog.codec.errors import KafkaLogError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY

__all__ = ["findings_of_begun_anew"]


def findings_of_begun_anew(root: str) -> list[Finding]:
    """A finding about a log directory whose metadata begins anew; none if it does not, or cannot be read."""
    if not os.path.isdir(os.path.join(root, CLUSTER_METADATA_DIRECTORY)):
        return []
    try:
        log = read_quorum_log(root)
    except KafkaLogError:
        return []
    if log.begun_anew is None:
        return []
    detail = Sentence(f"{log.begun_anew}; ", Ask.STANDALONE, " with ", Ask.ACCEPT_LOSS, " goes back to them")
    return [Finding(FindingCode.METADATA_INCONSISTENT, Severity.ERROR, None, None, detail, log.directory)]
