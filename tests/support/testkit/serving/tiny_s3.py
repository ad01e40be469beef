"""A directory as a bucket of S3 on loopback: what `pyarrow.fs.S3FileSystem` asks for when it lists and reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "volumes"
KEY = "AKLOOPBACK"
SECRET = "not-so-secret-9f3a"
CUT = 0
"""in place of a status: the answer ends after half of its bytes"""
_TIME = "2026-01-02T03:04:05.000Z"
_HTTP_TIME = "Fri, 02 Jan 2026 03:04:05 GMT"


@dataclass
class TinyS3:
    """A running server."""

    endpoint: str
    requests: list[str] = field(default_factory=list)
    """method, path and range of each"""
    sent: int = 0
    """bytes of objects"""

    def options(self, **more: str) -> dict[str, str]:
        """What a query needs to read from it."""
        given = {"endpoint": self.endpoint, "region": "us-east-1", "access.key": KEY, "secret.key": SECRET}
        return {f"storage.{name}": value for name, value in given.items()} | more


def _listing(root: Path, prefix: str, delimiter: str) -> str:
    contents, common = [], set()
    inside = root / prefix.rpartition("/")[0]
    below_it = inside.rglob("*") if inside.is_dir() else ()
    for key in sorted(str(path.relative_to(root)) for path in below_it if path.is_file()):
        if not key.startswith(prefix):
            continue
        below = key[len(prefix) :]
        if delimiter and delimiter in below:
            common.add(prefix + below.partition(delimiter)[0] + delimiter)
        else:
            contents.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{_TIME}</LastModified>"
                f"<Size>{(root / key).stat().st_size}</Size></Contents>"
            )
    prefixes = [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(common)]
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(contents) + len(prefixes)}</KeyCount>"
        f"<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{''.join(contents)}{''.join(prefixes)}"
        "</ListBucketResult>"
    )


@contextmanager
def serving(root: Path, *, throttled: Callable[[int], int | None] | None = None) -> Iterator[TinyS3]:
    """Serve the files below ``root`` as the objects of the bucket.

    ``throttled`` gives for the number of a request the status that it is answered with instead: 503, 429 or `CUT`.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        is_cut = False
        disable_nagle_algorithm = True  # else the body waits 40 ms for the client to acknowledge the head

        def log_message(self, *_: Any) -> None:
            """Nothing on standard error."""

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _send(self, code: int, body: bytes, *, with_body: bool = True, **headers: str) -> None:
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", headers.get("length", str(len(body))))
            self.end_headers()
            if with_body:
                self.wfile.write(body[: len(body) // 2] if self.is_cut else body)
            self.close_connection = self.close_connection or self.is_cut

        def _answer(self, *, with_body: bool) -> None:
            parts = urlsplit(self.path)
            running.requests.append(f"{self.command} {self.path} {self.headers.get('Range', '')}")
            if f"Credential={KEY}/" not in self.headers.get("Authorization", ""):
                body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
                self._send(403, body, with_body=with_body)
                return
            status = None if throttled is None else throttled(len(running.requests))
            self.is_cut = status == CUT
            if status:
                body = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>"
                self._send(status, body, with_body=with_body)
                return
            key = unquote(parts.path).removeprefix(f"/{BUCKET}").strip("/")
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if "list-type" in query:
                self._list(query)
                return
            path = root / key
            if not key or not path.is_file():
                code = 200 if not key else 404
                self._send(code, b"", with_body=with_body)
                return
            content = path.read_bytes()
            wanted = self.headers.get("Range")
            about: dict[str, Any] = {"Last_Modified": _HTTP_TIME, "ETag": '"x"'}
            if wanted is None or not with_body:
                self._send(200, content, with_body=with_body, **about)
                return
            start, _, end = wanted.removeprefix("bytes=").partition("-")
            piece = content[int(start) : int(end) + 1]
            running.sent += len(piece)
            self._send(206, piece, Content_Range=f"bytes {start}-{end}/{len(content)}", **about)

        def _list(self, query: dict[str, str]) -> None:
            listed = _listing(root, query.get("prefix", ""), query.get("delimiter", ""))
            self._send(200, listed.encode(), Content_Type="application/xml")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running = TinyS3(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
