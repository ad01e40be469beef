"""Access to `kafkalog serve`: addresses, TLS and users; a server without protection beyond loopback is refused."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import stat
from collections.abc import Callable

from kafkalog.codec.common.errors import FormatError, KafkaLogError, RecoveryRefused, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.parsing.properties import decode_properties
from kafkalog.log.disk.files import read_small, status_of

__all__ = ["Certificates", "check_access", "check_addresses", "users_of"]

_LARGEST_PEM = 16 << 20
_USER = re.compile(rb"\s*(?:\\.|[^\s=:\\])+\s*=\s*\S")
_TOPICS = ".topics"
_PATTERN = re.compile(r"[a-zA-Z0-9._-]*\*?\Z")
_NAMED = 5
"""topics that a refusal names"""


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in ("localhost", "localhost.localdomain")


def check_addresses(listen: tuple[str, int], advertise: tuple[str, int] | None) -> None:
    """Check the address that the server announces to clients: `advertise` (Kafka's `advertised.listeners`), or `listen`
    if that is None. Raises `UsageError` if its host is a wildcard address such as 0.0.0.0, because clients cannot
    connect to it.
    """
    host = listen[0] if advertise is None else advertise[0]
    if _is_wildcard(host):
        how = "--listen" if advertise is None else "--advertise"
        raise UsageError(
            f"{how} {host} is all addresses, and no client can connect to that: --advertise HOST:PORT says where they "
            "find this server"
        )


def check_access(
    host: str, topics: list[str], *, with_tls: bool, with_users: bool, insecure: bool, complain: Callable[[str], None]
) -> None:
    """Check that topics are not served unprotected. An address beyond loopback needs both TLS and users (`with_users`:
    clients need a password or a certificate). If one is missing, raise `RecoveryRefused`; with `insecure`, pass a
    warning to `complain` instead. Both name a few of `topics`.
    """
    if _is_loopback(host) or (with_tls and with_users):
        return
    named = first_of(topics, _NAMED)
    if not with_users:
        what = f"everybody who reaches {host} can read {counted(len(topics), 'topic')}: {named}"
    else:
        what = f"passwords and the records of {counted(len(topics), 'topic')} ({named}) travel as they are"
    if not insecure:
        raise RecoveryRefused(
            f"{what}. Give --tls-certificate, and --users or --tls-client-ca; or listen on 127.0.0.1; or pass "
            "--insecure if that is as it should be.",
            reason="insecure",
        )
    complain(f"{what} (--insecure)")


class Certificates:
    """TLS certificate, key and CAs of clients, which can be loaded again without a restart of the server."""

    def __init__(self, certificate: str, key: str | None, client_ca: str | None) -> None:
        self._paths = certificate, key, client_ca
        self._context = self._loaded()
        self._stamp = self._stamps()

    def _stamps(self) -> list[object]:
        found = [status_of(path) for path in self._paths if path is not None]
        return [None if each is None else (each.st_ino, each.st_size, each.st_mtime_ns) for each in found]

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        return self._context

    def reload(self, complain: Callable[[str], None]) -> None:
        """Load the files again if one has changed since the last call, and pass a sentence about the result to
        `complain`. If they can be loaded, `context` then returns a new one, otherwise the previous one. Raises
        `StorageError` if a file cannot be examined.
        """
        stamp = self._stamps()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._context = self._loaded()  # a new one: the old one would keep CAs that were removed
        except KafkaLogError as error:
            complain(f"the certificate stays as it was: {error}")
        else:
            complain("the certificate was read again")

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate, key, client_ca = self._paths
        try:
            for path in self._paths:
                if path is not None:
                    read_small(path, _LARGEST_PEM)  # OpenSSL does not say which file it could not read
            context.load_cert_chain(certificate, key, _no_password)
        except ssl.SSLError as error:
            with_key = certificate if key is None else f"{certificate} with {key}"
            raise UsageError(f"{with_key} is not a certificate in PEM with its key: {_reason(error)}") from None
        if client_ca is not None:
            try:
                context.load_verify_locations(client_ca)
            except ssl.SSLError as error:
                raise UsageError(f"{client_ca} holds no certificates in PEM: {_reason(error)}") from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _no_password() -> str:
    raise UsageError("the key of the certificate is encrypted; give one that is not, readable by its owner alone")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "nothing in it is one").lower().replace("_", " ")


def users_of(path: str, complain: Callable[[str], None]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the passwords by user, and by user the patterns of the topics that the user may read. The patterns come
    from lines `name.topics=a,b-*`; users without such a line are missing in the second result.

    Calls `complain` with a warning if other users of the machine may read the file. Raises `UsageError` if the file has
    no user, an invalid line, or topics of a user without a password. Raises `StorageError` if it cannot be read.
    """
    try:
        data = read_small(path, DEFAULT_LIMITS.checkpoint_bytes)
        users = decode_properties(data)
    except FormatError as error:
        raise UsageError(f"{path} is not a properties file: {error.message}") from None
    if not users:
        raise UsageError(f"{path} names nobody: a line is name=password")
    for number, line in enumerate(data.splitlines(), 1):  # any text at all is a file of properties
        if line.strip() and not line.lstrip().startswith((b"#", b"!")) and not _USER.match(line):
            raise UsageError(f"{path}: line {number} is not name=password")
    if stat.S_IMODE(os.stat(path).st_mode) & (stat.S_IRGRP | stat.S_IROTH):
        complain(f"others on this machine can read the passwords in {path} (chmod 600 changes that)")
    named = {name: name.removesuffix(_TOPICS) for name in users if name.endswith(_TOPICS)}
    permitted = {user: _patterns(path, user, users[name]) for name, user in named.items() if user in users}
    passwords = {name: each for name, each in users.items() if name.removesuffix(_TOPICS) not in permitted or
                 not name.endswith(_TOPICS)}  # fmt: skip
    for name in sorted(set(named) & set(passwords)):
        raise UsageError(f"{path}: {name} says what {named[name]} may read, who has no password")
    return passwords, permitted


def _patterns(path: str, user: str, text: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in text.split(",") if each.strip())
    for each in found:
        if not _PATTERN.match(each):
            told = "that names no topic, nor the beginning of one with * behind"
            raise UsageError(f"{path}: {user} may read {each!r}: {told}")
    return found
