"""Define and validate the request to recover a KRaft quorum."""

from __future__ import annotations

import enum
import os
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.arguments import TIMES, Bounds, check_fields
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.files.text import encode_uuid
from kafkalog.jobs.quorum.expiry import refuse_settings
from kafkalog.jobs.quorum.properties import refuse_as_log_dir
from kafkalog.log.directories.identities import wrong_directory_id
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.facts.recovery_request import QUARANTINE

__all__ = ["QuorumRecovery", "QuorumWay"]

_LARGEST_PORT = 65_535
_LARGEST_ID = 2**31 - 1
_LISTENER = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)


def _new_directory_id() -> str:
    """Return a new random directory id as Kafka makes it (`Uuid.randomUuid`). It never begins with a dash, because a
    command line would take that for an option.
    """
    while True:
        text = encode_uuid(uuid.uuid4().bytes)
        if not text.startswith("-"):
            return text


class QuorumWay(enum.StrEnum):
    """Ways to recover a quorum."""

    STANDALONE = "standalone"
    """one controller becomes the quorum"""
    TOGETHER = "together"
    """the given controllers become the quorum, at new endpoints if they have moved"""
    FROM_BROKER = "from_broker"
    """a broker's copy becomes a controller"""


class QuorumRecovery(Struct, frozen=True, kw_only=True):
    """Request to recover a KRaft quorum: the way, further directories to read, and consent."""

    way: QuorumWay
    beside: tuple[str, ...] = ()
    """directories of controllers that will not be in the new quorum; read only"""
    brokers: tuple[str, ...] = ()
    """directories of brokers, read only; the first one is the source of `FROM_BROKER`"""
    endpoints: Mapping[int, tuple[str, int]] = {}
    """host and port by node id"""
    voters: tuple[int, ...] | None = None
    """ids of all future voters; None: the nodes of the given directories"""
    listener: str | None = None
    """name of the controllers' listener, if the files do not have it"""
    node: int | None = None
    """id of the controller that is made from a broker's copy"""
    into: str | None = None
    """directory of that controller, new or empty"""
    directory_id: str | None = None
    """directory id of that directory; None: a new one"""
    becomes_dynamic: bool = False
    """whether static voters become dynamic ones"""
    others_are_gone: bool = False
    """whether no other member of the old voter set will come back"""
    accept_loss: bool = False
    """continue even if readable metadata would be cut off"""
    at: Annotated[int | None, Bounds(TIMES)] = None
    """time to which retention is compared, ms since 1970; None: the clock's"""
    stamp: int | None = None
    """timestamp of the new batch, ms since 1970; None: the clock's"""
    config: Mapping[str, str] = {}
    """brokers' settings by which data expires"""
    properties: Mapping[int, Mapping[str, str]] = {}
    """present server properties by node id; the lines to set keep their values as far as possible"""
    quarantine: Annotated[PathLike | None, QUARANTINE] = None
    """where executions keep what they removed; None: beside each directory"""

    def __post_init__(self) -> None:
        check_fields(self)

    def checked(self, targets: Sequence[PathLike]) -> QuorumRecovery:
        """Validate the request; return a copy with values filled in: the times `at` and `stamp` become the clock's if
        they are None. A `directory_id` is generated if a controller is made from a broker's copy and none is given.
        `targets` are the directories of the controllers that will form the quorum.

        Raises `UsageError` for an invalid node id, directory id, endpoint, listener, setting or `into`, and for options
        that are missing or cannot be used together.
        """
        for node, (host, port) in self.endpoints.items():
            if not 0 <= node <= _LARGEST_ID:
                raise UsageError(f"node {node} is not a node id")
            if not host or not 0 < port <= _LARGEST_PORT:
                raise UsageError(f"{host}:{port} is not an endpoint of node {node}: give HOST:PORT")
        if self.listener is not None and not _LISTENER.fullmatch(self.listener):
            raise UsageError(
                Sentence(
                    Ask.LISTENER,
                    f" {self.listener[:60]!r} is not the name of a listener: give letters, digits, - and _, such as "
                    "CONTROLLER",
                )
            )
        refuse_settings(self.config)
        if self.way is QuorumWay.FROM_BROKER:
            self._check_new_controller(targets)
        else:
            self._check_controllers(targets)
        now = time.time_ns() // 1_000_000
        makes_one = self.way is QuorumWay.FROM_BROKER and self.directory_id is None
        return replace(
            self,
            at=now if self.at is None else self.at,
            stamp=now if self.stamp is None else self.stamp,
            directory_id=_new_directory_id() if makes_one else self.directory_id,
        )

    def _check_new_controller(self, targets: Sequence[PathLike]) -> None:
        if targets:
            raise UsageError("a broker's copy becomes a controller in a new directory: name no directories to change")
        if not self.brokers:
            raise UsageError("name the log directories of the broker (`brokers`) whose copy becomes the controller")
        if self.node is None or self.into is None:
            raise UsageError(Sentence("a broker's copy becomes a controller with ", Ask.NODE, " and ", Ask.INTO))
        if set(self.endpoints) != {self.node}:
            raise UsageError(Sentence(Ask.ENDPOINT, f" HOST:PORT says where controller {self.node} will listen"))
        if not 0 <= self.node <= _LARGEST_ID:
            raise UsageError(f"node {self.node} is not a node id")
        wrong = None if self.directory_id is None else wrong_directory_id(self.directory_id)
        if wrong is not None:
            raise UsageError(f"directory_id is {self.directory_id!r}, {wrong}: no controller starts with it")
        refuse_as_log_dir(Ask.INTO, os.path.abspath(self.into))

    def _check_controllers(self, targets: Sequence[PathLike]) -> None:
        if not targets:
            raise UsageError("no path was given")
        for asked, value in ((Ask.NODE, self.node), (Ask.INTO, self.into)):
            if value is not None:
                raise UsageError(
                    Sentence(asked, " is for the controller that ", Ask.FROM_BROKER, " makes: leave it out")
                )

    @property
    def now_ms(self) -> int:
        """Time to treat as now, ms since 1970. Raises `AssertionError` if the request was not checked."""
        if self.at is None:
            raise AssertionError("a request that was not checked")
        return self.at

    @property
    def stamp_ms(self) -> int:
        """Timestamp of the new batch, ms since 1970. Raises `AssertionError` if the request was not checked."""
        if self.stamp is None:
            raise AssertionError("a request that was not checked")
        return self.stamp
