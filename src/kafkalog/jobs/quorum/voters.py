"""Determine the voters of a new quorum: the given controllers by node id and directory id, with their present
endpoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.files.kraft import KRaftRecord, KRaftVersion, KRaftVoters, VoterEndpoint, VoterNode
from kafkalog.codec.files.text import decode_uuid, encode_uuid
from kafkalog.jobs.quorum.request import QuorumRecovery

if TYPE_CHECKING:
    from kafkalog.cluster.kraft.metadata_image import MetadataImage

__all__ = ["QuorumMember", "endpoints_known", "new_records", "node_of", "static_line"]

_LISTENER = "CONTROLLER"
"""default name of the controllers' listener"""
_SMALLEST, _LARGEST = 0, 1
"""levels of kraft.version that every release with dynamic voters supports"""


class QuorumMember(Struct, frozen=True, kw_only=True):
    """Controller of the new quorum."""

    node: int
    """node id of the controller"""
    directory_id: str | None
    """directory id of the controller's metadata log directory; null if it has none"""
    host: str | None
    """host on which the controller listens; null if unknown, which is possible with static voters"""
    port: int | None
    """port on which the controller listens; null if unknown"""

    @property
    def place(self) -> str:
        """`host:port`, with an IPv6 address in brackets; `HOST:PORT` if unknown."""
        if self.host is None or self.port is None:
            return "HOST:PORT"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def endpoints_known(log: QuorumLog, image: MetadataImage) -> dict[int, tuple[VoterEndpoint, ...]]:
    """Return the endpoints of controllers by node id: from voter sets, else from controllers' registrations
    (`RegisterControllerRecord`). A node that neither names is left out; one that is named without endpoints has an
    empty tuple.
    """
    endpoints: dict[int, tuple[VoterEndpoint, ...]] = {}
    for node, fields in image.controllers.items():
        endpoints[node] = tuple(
            VoterEndpoint(name=field["name"], host=field["host"], port=field["port"]) for field in fields["end_points"]
        )
    for voter_node in (*log.known.values(), *log.voters):
        endpoints[voter_node.voter_id] = voter_node.endpoints
    return endpoints


def members_of(
    logs: Sequence[QuorumLog], wanted: QuorumRecovery, known: Mapping[int, tuple[VoterEndpoint, ...]]
) -> tuple[QuorumMember, ...]:
    """Return the controllers of the given directories as members of the quorum, in their order. Host and port are from
    the request, else the first known endpoint, else None.
    """
    return tuple(_member(log.node or 0, log.directory_id, wanted, known) for log in logs)


def _member(
    node: int, directory_id: str | None, wanted: QuorumRecovery, known: Mapping[int, tuple[VoterEndpoint, ...]]
) -> QuorumMember:
    host, port = wanted.endpoints.get(node, (None, None))
    if host is None:
        first = next(iter(known.get(node, ())), None)
        host, port = (None, None) if first is None else (first.host, first.port)
    return QuorumMember(node=node, directory_id=directory_id, host=host, port=port)


def new_member(node: int, wanted: QuorumRecovery) -> QuorumMember:
    """Return the controller that is made from a broker's copy, with the endpoint that the request has for `node`."""
    host, port = wanted.endpoints[node]
    return QuorumMember(node=node, directory_id=wanted.directory_id, host=host, port=port)


def listener_of(wanted: QuorumRecovery, known: Mapping[int, tuple[VoterEndpoint, ...]]) -> str:
    """Name of the controllers' listener: the given one, else the first in the files, else Kafka's usual one."""
    named = (endpoint.name for endpoints in known.values() for endpoint in endpoints)
    return wanted.listener or next(named, _LISTENER)


def node_of(
    member: QuorumMember,
    wanted: QuorumRecovery,
    known: Mapping[int, tuple[VoterEndpoint, ...]],
    before: Sequence[VoterNode],
) -> VoterNode:
    """Return the entry of a member for a voters record.

    Its endpoints are those of the node in `known`. Its only endpoint is the member's own host and port if the request
    names an endpoint for the node or `known` has none. Its supported versions are those of its entry in `before`, the
    present voters; 0 to 1 if it has none. Raises `RecoveryRefused` if the directory id, or the host and port that are
    needed, are unknown.
    """
    if member.directory_id is None:
        raise RecoveryRefused(
            f"meta.properties of node {member.node} has no directory.id, by which dynamic voters are known: start the "
            "controller once (it adds the id), or keep static voters",
            reason="directory_id",
        )
    old = next((voter_node for voter_node in before if voter_node.voter_id == member.node), None)
    moved = member.node in wanted.endpoints or not known.get(member.node)
    if moved:
        if member.host is None or member.port is None:
            raise RecoveryRefused(
                Sentence(
                    f"no file says where controller {member.node} listens: give ",
                    Ask.ENDPOINT,
                    f" {member.node}=HOST:PORT",
                ),
                reason="endpoint",
            )
        endpoints: tuple[VoterEndpoint, ...] = (
            VoterEndpoint(name=listener_of(wanted, known), host=member.host, port=member.port),
        )
    else:
        endpoints = known[member.node]
    lowest, highest = (_SMALLEST, _LARGEST) if old is None else (old.min_supported_version, old.max_supported_version)
    return VoterNode(
        voter_id=member.node,
        directory_id=decode_uuid(member.directory_id),
        endpoints=endpoints,
        min_supported_version=lowest,
        max_supported_version=highest,
    )


def new_records(voters: Sequence[VoterNode], *, becomes_dynamic: bool) -> tuple[KRaftRecord, ...]:
    """Return the control records that make these nodes the voters, sorted by id. With `becomes_dynamic`, a record that
    raises `kraft.version` to 1 comes first.
    """
    record = KRaftVoters(0, tuple(sorted(voters, key=lambda voter: voter.voter_id)))
    return (KRaftVersion(0, 1), record) if becomes_dynamic else (record,)


def static_line(members: Sequence[QuorumMember]) -> str:
    """Property line for static voters."""
    return "controller.quorum.voters=" + ",".join(f"{member.node}@{member.place}" for member in members)


def bootstrap_line(voters: Sequence[VoterNode]) -> str:
    """Property line with which nodes find dynamic voters."""
    return "controller.quorum.bootstrap.servers=" + ",".join(_places(voters))


def _places(voters: Sequence[VoterNode]) -> Iterator[str]:
    for voter in voters:
        first = voter.endpoints[0]
        yield QuorumMember(
            node=voter.voter_id, directory_id=encode_uuid(voter.directory_id), host=first.host, port=first.port
        ).place
