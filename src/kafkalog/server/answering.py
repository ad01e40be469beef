"""The table of served requests: handler, cost and scope of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct

from kafkalog.server.answers import Answer
from kafkalog.server.apis import Api, offered
from kafkalog.server.catalog import Catalog, Permitted
from kafkalog.server.connection import Connection
from kafkalog.server.deferring import Deferring
from kafkalog.server.groups.commits import Commits
from kafkalog.server.groups.consumer_groups import ConsumerGroups
from kafkalog.server.groups.coordinator import Coordinator
from kafkalog.server.handlers.admin import AdminHandler
from kafkalog.server.handlers.configs import ConfigsHandler
from kafkalog.server.handlers.fetch import FetchHandler
from kafkalog.server.handlers.group_requests import GroupHandler
from kafkalog.server.handlers.leader_epochs import LeaderEpochHandler
from kafkalog.server.handlers.list_offsets import ListOffsetsHandler
from kafkalog.server.handlers.metadata import MetadataHandler
from kafkalog.server.handlers.producers import ProducersHandler
from kafkalog.server.handlers.quorum import QuorumHandler
from kafkalog.server.handlers.sasl import SaslHandler
from kafkalog.server.handlers.versions import api_versions
from kafkalog.server.wire import Fields, Request

__all__ = ["OFFERED", "SERVED", "Handlers", "Shared"]


class Shared(Struct, frozen=True, kw_only=True):
    """Objects shared by all clients, independent of permissions."""

    catalog: Catalog
    advertised: tuple[str, int]
    deferring: Deferring
    sasl: SaslHandler
    fetch: FetchHandler
    coordinator: Coordinator
    consumer_groups: ConsumerGroups
    commits: Commits


class Handlers:
    """The handlers for clients that may read the same topics."""

    def __init__(self, shared: Shared, served: Catalog | Permitted) -> None:
        self.shared = shared
        self.is_limited = served is not shared.catalog
        self.metadata = MetadataHandler(served, shared.advertised)
        self.offsets = ListOffsetsHandler(served)
        self.groups = GroupHandler(served, shared.coordinator, shared.consumer_groups, shared.commits)
        self.epochs = LeaderEpochHandler(served)
        self.configs = ConfigsHandler(served)
        self.admin = AdminHandler(served)
        self.producers = ProducersHandler(served)
        self.quorum = QuorumHandler(served)
        self.fetch = shared.fetch.of(served).fetch


class _Served(Struct, frozen=True):
    """How one kind of request is answered: by which function, and with which restrictions."""

    answer: Callable[[Handlers, Request, Connection], Answer]
    is_costly: bool = False
    """whether a short request may have a large answer"""
    is_of_the_cluster: bool = False
    """whether it is refused to users who may read only some topics, as with a broker's ACLs"""


def _at_once(answer: Callable[[Handlers], Callable[[Request], Fields]], **flags: bool) -> _Served:
    return _Served(lambda handlers, request, _: answer(handlers)(request), **flags)


def _of_groups(answer: Callable[[GroupHandler], Callable[[Request], Fields]], **flags: bool) -> _Served:
    """Return the table entry for a request about groups. `answer` takes a `GroupHandler` and returns its method that
    answers the request. `flags` are fields of `_Served`. The method runs in a worker thread if the committed offsets in
    the files must be read first; the handler raises `CrowdedError` then if too many requests wait. If they are known
    and the files have not changed, it runs in the calling thread.
    """

    def answered(handlers: Handlers, request: Request, connection: Connection) -> Answer:
        shared, wanted = handlers.shared, answer(handlers.groups)
        return wanted(request) if shared.commits.is_ready else shared.deferring.slowly(request, connection, wanted)

    return _Served(answered, **flags)


def _list_offsets(handlers: Handlers, request: Request, connection: Connection) -> Answer:
    if handlers.offsets.is_quick(request):
        return handlers.offsets.list_offsets(request)
    return handlers.shared.deferring.slowly(request, connection, handlers.offsets.find_offsets)


SERVED: Mapping[str, _Served] = {
    "ApiVersions": _at_once(lambda each: partial(api_versions, cluster=each.shared.catalog.cluster, told=OFFERED)),
    "SaslHandshake": _Served(lambda each, *asked: each.shared.sasl.handshake(*asked)),
    "SaslAuthenticate": _Served(lambda each, *asked: each.shared.sasl.authenticate(*asked)),
    "Metadata": _at_once(lambda each: each.metadata.metadata, is_costly=True),
    "DescribeTopicPartitions": _at_once(lambda each: each.metadata.describe_topic_partitions, is_costly=True),
    "DescribeCluster": _at_once(lambda each: each.metadata.describe_cluster),
    "FindCoordinator": _at_once(lambda each: each.metadata.find_coordinator),
    "Fetch": _Served(lambda each, *asked: each.fetch(*asked)),
    "ListOffsets": _Served(_list_offsets),
    "OffsetForLeaderEpoch": _at_once(lambda each: each.epochs.offset_for_leader_epoch),
    "DescribeConfigs": _at_once(lambda each: each.configs.describe_configs, is_costly=True),
    "ListConfigResources": _at_once(lambda each: each.configs.list_config_resources, is_of_the_cluster=True),
    "DescribeProducers": _Served(
        lambda each, *asked: each.shared.deferring.slowly(*asked, each.producers.describe_producers)
    ),
    "DescribeQuorum": _Served(
        lambda each, *asked: each.shared.deferring.slowly(*asked, each.quorum.describe_quorum), is_of_the_cluster=True
    ),
    "DescribeLogDirs": _at_once(lambda each: each.admin.describe_log_dirs, is_costly=True, is_of_the_cluster=True),
    "ListPartitionReassignments": _at_once(
        lambda each: each.admin.list_partition_reassignments, is_of_the_cluster=True
    ),
    "DescribeClientQuotas": _at_once(lambda each: each.admin.describe_client_quotas, is_of_the_cluster=True),
    "DescribeUserScramCredentials": _at_once(
        lambda each: each.admin.describe_user_scram_credentials, is_of_the_cluster=True
    ),
    "JoinGroup": _Served(lambda each, request, client: each.shared.coordinator.join(request, client.peer)),
    "SyncGroup": _Served(lambda each, request, _: each.shared.coordinator.sync(request)),
    "Heartbeat": _at_once(lambda each: each.shared.coordinator.heartbeat),
    "LeaveGroup": _at_once(lambda each: each.shared.coordinator.leave),
    "ConsumerGroupHeartbeat": _Served(
        lambda each, request, client: each.shared.consumer_groups.heartbeat(request, client.peer)
    ),
    "OffsetCommit": _of_groups(lambda groups: groups.offset_commit),
    "OffsetFetch": _of_groups(lambda groups: groups.offset_fetch, is_costly=True),
    "ListGroups": _of_groups(lambda groups: groups.list_groups, is_costly=True),
    "DescribeGroups": _of_groups(lambda groups: groups.describe_groups, is_costly=True),
    "ConsumerGroupDescribe": _of_groups(lambda groups: groups.describe_consumer_groups),
}

OFFERED: tuple[Api, ...] = tuple(offered(SERVED))
"""The requests listed in `ApiVersions`."""
