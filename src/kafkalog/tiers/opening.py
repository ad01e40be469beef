"""Open a partition directory, with its remote part if it is tiered. Modules for remote tiers are imported only if one
is named.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import parse_partition_directory
from kafkalog.log.directories import partition as local
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import PathLike, absolute, exists
from kafkalog.tiers.remote_tier import RemoteTier

__all__ = ["open_partition"]


def open_partition(
    path: PathLike,
    *,
    remote: str | RemoteTier | None = None,
    layout: str | None = None,
    storage: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Partition:
    """Open the partition directory at `path`; with `remote`, a tiered log is read from both tiers, the remote segments
    first.

    Remote segments are found with `__remote_log_metadata` in the same log directory, or by listing the tier if there
    are no events of the partition. Objects are read by ranges. Raises `UsageError` if the path is not a partition
    directory or the tier cannot be opened with these options. Raises `StorageError` if either cannot be read.

    * `remote`: the URI or path of the remote tier, or the tier
    * `layout`: layout of the tier, detected by default
    * `storage`, `keys`: as for `open_tier`
    * `limits`: upper bounds for a batch or file (`Limits`)
    """
    if remote is None:
        return local.open_partition(path, limits=limits)
    text = os.fspath(path)
    if parse_partition_directory(os.path.basename(absolute(text))) is None:
        raise UsageError(f"{text} is not named like a partition directory (<topic>-<partition>): its topic is unknown")
    from kafkalog.tiers.both_tiers import BothTiers
    from kafkalog.tiers.layouts import open_tier
    from kafkalog.tiers.local_tiering import remote_metadata_in

    tier = open_tier(remote, layout=layout, storage=storage, keys=keys) if isinstance(remote, str) else remote
    root, name = os.path.dirname(absolute(text)), os.path.basename(absolute(text))
    both = BothTiers(root, tier, remote_metadata_in([root]))
    if not exists(f"{both.path}/{name}"):
        raise UsageError(f"{text} does not exist, and {tier.place} has no part of it")
    return local.open_partition(f"{both.path}/{name}", limits=limits)
