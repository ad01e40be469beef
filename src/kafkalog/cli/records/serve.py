"""`kafkalog serve`: a read-only broker over log directories, until it is interrupted."""

from __future__ import annotations

import re
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from kafkalog.cli.options.common import JSON, REPLICA
from kafkalog.cli.options.numbers import Whole
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.remote import Remote, remote_options
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.options.times import TIME_METAVAR, Timestamp
from kafkalog.cli.output import LineWriter, print_json, report_findings
from kafkalog.cluster.coordinator_logs import coordinator_logs
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.wording import counted
from kafkalog.codec.names import CONSUMER_OFFSETS_TOPIC
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog.server.catalog import Catalog

    _AddressType = click.ParamType[tuple[str, int]]
else:
    _AddressType = click.ParamType  # not generic before click 8.4

__all__ = ["command"]

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:]+)):(?P<port>\d{1,5})\Z")
_LARGEST_PORT = 65_535
_SWITCH_S = 0.001
"""How long a thread that computes keeps one waiting that serves clients."""


class _Address(_AddressType):
    """Option type for `HOST:PORT`; an IPv6 address is in brackets."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return host and port; an IPv6 host loses its brackets. A tuple is returned unchanged. Fails with
        `click.BadParameter` if the text is not HOST:PORT.
        """
        if isinstance(value, tuple):
            return value
        found = _ADDRESS.match(str(value).strip())
        if found is None or int(found["port"]) > _LARGEST_PORT:
            self.fail(f"{str(value)[:60]!r} is not HOST:PORT", param, ctx)
        return found["six"] or found["host"], int(found["port"])


class ServeLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="listening"):
    """One line, as soon as clients can connect."""

    bootstrap: str
    """what clients take for `bootstrap.servers`"""
    topics: int
    """how many are served"""
    partitions: int
    """how many logs are served"""
    absent: int
    """how many partitions the cluster's metadata has whose logs are not here"""


@click.command(name="serve")
@PATHS
@click.option("--listen", metavar="HOST:PORT", type=_Address(), default="127.0.0.1:9092", show_default=True,
              help="HOST:PORT to listen on; port 0: any free port.")  # fmt: skip
@click.option("--advertise", metavar="HOST:PORT", type=_Address(),
              help="HOST:PORT to announce to clients, if not that of --listen; port 0: the same port.")  # fmt: skip
@selection_options
@click.option("--as-of", metavar=TIME_METAVAR, type=Timestamp(),
              help="Serve the logs and offsets as they were at this time: ms since 1970, ISO 8601, or a span from now "
              "such as -2h.")  # fmt: skip
@click.option("--skip-damaged", is_flag=True,
              help="Skip batches with a wrong checksum and print a warning for each [they are served, and clients "
              "reject them].")  # fmt: skip
@click.option("--offsets-file", metavar="FILE",
              help="Keep the offsets that clients commit in this file [in memory].")  # fmt: skip
@click.option("--tls-certificate", metavar="FILE", help="Serve with TLS: PEM file with the certificate and its chain.")
@click.option("--tls-key", metavar="FILE", help="PEM file with the certificate's private key [the same file].")
@click.option("--tls-client-ca", metavar="FILE", help="Accept only clients with a certificate signed by one of these "
    "CAs.")
@click.option("--users", metavar="FILE",
              help="Require SASL/PLAIN. FILE has a line name=password for each user; name.topics=a,b-* limits a user "
              "to these topics.")  # fmt: skip
@click.option("--insecure", is_flag=True,
              help="Allow an address beyond loopback without TLS and passwords: anyone who can connect may "
              "read.")  # fmt: skip
@click.option("--max-connections", metavar="N", type=Whole(1, 100_000), default=1000, show_default=True,
              help="Largest number of simultaneous client connections.")  # fmt: skip
@click.option("--max-request-bytes", metavar="N", type=Whole(1024, 1 << 30), default=8 << 20, show_default=True,
              help="Largest request that is accepted, in bytes.")  # fmt: skip
@click.option("--processors", metavar="N", type=Whole(1, 64), default=2, show_default=True,
              help="Number of threads that serve clients.")  # fmt: skip
@click.option("--refresh", metavar="SECONDS", type=Whole(0, 86_400), default=1, show_default=True,
              help="Interval at which new data in the logs is looked for; 0: never.")  # fmt: skip
@remote_options
@JSON
@REPLICA
@paths_in_properties
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: tuple[str, ...],
    remote: Remote,
    listen: tuple[str, int],
    tls_certificate: str | None,
    users: str | None,
    max_connections: int,
    as_json: bool,
    **given: Any,
) -> int:
    """Let Kafka's own clients read log directories, as if a broker had them open.

    Every request that would write records or change topics is refused, and nothing in the directories is changed.
    Offsets that clients commit are kept apart from them (see --offsets-file).  Ends with SIGINT or SIGTERM.

    Exit code 0 after either signal, 3 if clients could connect without protection (see --insecure).
    """
    from kafkalog.cli.records.serve_access import Certificates, check_access, check_addresses, users_of
    from kafkalog.server.broker import Server, ServerOptions
    from kafkalog.server.catalog import Catalog
    from kafkalog.server.descriptors import descriptors_for
    from kafkalog.server.groups.commits import CommitsFile
    from kafkalog.server.limits import NetworkLimits
    from kafkalog.server.memory import keep_little

    if tls_certificate is None and (given["tls_key"] or given["tls_client_ca"]):
        raise UsageError("--tls-key and --tls-client-ca need --tls-certificate")
    check_addresses(listen, given["advertise"])
    certificates = None
    if tls_certificate is not None:
        certificates = Certificates(tls_certificate, given["tls_key"], given["tls_client_ca"])
    passwords, permitted = users_of(users, _complain) if users is not None else ({}, {})
    descriptors = descriptors_for(max_connections)
    if descriptors.connections < max_connections:
        _complain(
            f"at most {descriptors.connections} clients at a time, not {max_connections}: no more than "
            f"{descriptors.limit} files may be open (ulimit -n)"
        )
    places = remote.beside(paths)
    catalog = Catalog(places, replica=given["replica"], chosen=given["chosen"], as_of=given["as_of"],
                      complain=_complain, open_logs=descriptors.open_logs,
                      on_damage=_complain if given["skip_damaged"] else None)  # fmt: skip
    given["chosen"].check((partition.topic or "", partition.partition or 0) for partition in catalog.partitions)
    short: list[Finding] = []
    coordinator_logs(catalog.partitions, CONSUMER_OFFSETS_TOPIC, short)
    report_findings([*catalog.findings, *short])
    for each in catalog.held:
        _complain(
            f"{each} is locked, as by a broker that is running: clients see what it has written, replicated or not, "
            "a moment later than from itself"
        )
    check_access(listen[0], sorted(catalog.topics), with_tls=certificates is not None,
                 with_users=bool(passwords or given["tls_client_ca"]), insecure=given["insecure"],
                 complain=_complain)  # fmt: skip
    options = ServerOptions(
        processors=given["processors"],
        limits=NetworkLimits(connections=descriptors.connections, request_bytes=given["max_request_bytes"]),
        tls=None if certificates is None else certificates.context,
        users=passwords,
        permitted=permitted,
        advertised=given["advertise"],
        refresh_seconds=given["refresh"],
        commits_file=CommitsFile(given["offsets_file"]) if given["offsets_file"] is not None else None,
    )
    sys.setswitchinterval(_SWITCH_S)
    keep_little()
    with _told_to_stop() as stop, Server(catalog, listen, options, complain=_complain) as server:
        _say_where(server.advertised, catalog, as_json=as_json)
        while not stop.wait(1):
            if certificates is not None:
                certificates.reload(_complain)
    return ExitCode.CLEAN


@contextmanager
def _told_to_stop() -> Iterator[threading.Event]:
    """Context manager that yields an event, which SIGINT and SIGTERM set. Replaces the handlers of both signals, and
    restores them at the end.
    """
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_where(address: tuple[str, int], catalog: Catalog, *, as_json: bool) -> None:
    host, port = address
    bootstrap = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    count = sum(len(topic.partitions) for topic in catalog.topics.values())
    if as_json:
        topics, absent = len(catalog.topics), catalog.absent_count
        print_json(ServeLine(bootstrap=bootstrap, topics=topics, partitions=count, absent=absent))
        return
    with LineWriter() as writer:
        writer.write(f"listening: {bootstrap}")
        there = f"{counted(len(catalog.topics), 'topic')}, {counted(count, 'partition')}"
        if catalog.absent_count:
            there += f" (not here: {counted(catalog.absent_count, 'further partition')} of this cluster)"
        writer.write(f"{there}; nothing is written; Ctrl-C ends this")


def _complain(text: str) -> None:
    sys.stderr.write(f"kafkalog: {escape_controls(text)}\n")
    sys.stderr.flush()
