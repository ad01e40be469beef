"""Read paths that are URIs of object stores or HDFS through `pyarrow.fs`, and of other stores through fsspec. Hadoop's
configuration does not reach Python workers. So credentials come from the environment, as pyarrow and the cloud
libraries read it, or from options that begin with `storage.`. Messages never contain their values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.extras import how_to_install
from kafkalog.codec.common.limits import KIB
from kafkalog.log.disk.looked_at import LookedAt, in_threads, looked_at
from kafkalog.log.disk.remote_file import Content, MissingFileError, RemoteEntry, RemoteFile, is_uri, mount
from kafkalog.log.disk.store_retries import RETRIES, RETRY_SECONDS, Retries, ShortReadError

__all__ = ["STORAGE_OPTIONS", "StorageOptions", "mount_default", "root_of_uri", "uri_parts"]

_PREFIX = "storage."
_FOR_S3 = {
    "endpoint": "endpoint_override",
    "region": "region",
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "anonymous": "anonymous",
}
_FOR_AZURE = {"account": "account_name", "account.key": "account_key", "sas.token": "sas_token"}
_FOR_GCS = {"endpoint": "endpoint_override", "anonymous": "anonymous", "project": "project_id"}
_FOR_HDFS = {"user": "user", "kerberos.ticket": "kerb_ticket"}
_KINDS: dict[str, tuple[str, Mapping[str, str]]] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), ("S3FileSystem", _FOR_S3)),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), ("AzureFileSystem", _FOR_AZURE)),
    **dict.fromkeys(("gs", "gcs"), ("GcsFileSystem", _FOR_GCS)),
    **dict.fromkeys(("hdfs", "viewfs"), ("HadoopFileSystem", _FOR_HDFS)),
}
_OF_ALL = (RETRIES, RETRY_SECONDS)
STORAGE_OPTIONS = tuple(
    dict.fromkeys(_PREFIX + name for names in (*(names for _, names in _KINDS.values()), _OF_ALL) for name in names)
)
_SINGLY = 16
"""Most directories that are listed one by one. For more, one recursive listing is requested, which returns thousands of
objects at a time.
"""
_ENDPOINT = "AWS_ENDPOINT_URL"
_READ_AHEAD = 256 * KIB
"""Least bytes of a request, which costs more than the bytes: consecutive small reads become one request."""
_LONGEST = 300
_T = TypeVar("_T")


class StorageOptions:
    """Options `storage.*` of one query, by name without that prefix. Creating or unpickling an instance makes the
    query's URIs readable in the process.
    """

    def __init__(self, paths: tuple[str, ...], values: tuple[tuple[str, str], ...]) -> None:
        self._paths = paths
        self._values = values
        for path in paths:
            if is_uri(path) and not _is_file_uri(path) and not os.path.lexists(path):
                mount(root_of_uri(path), _Store(path, dict(values)))

    def __reduce__(self) -> tuple[Any, ...]:
        return StorageOptions, (self._paths, self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageOptions) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self._paths, self._values))

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self._values)
        return f"StorageOptions({names})"


def mount_default(path: str) -> None:
    """Make a URI readable with the store's settings from the environment. Raises `UsageError` for a `file:` URI, a
    malformed one, and one that contains credentials.
    """
    if _is_file_uri(path):
        raise UsageError(f"{path}: give the path without file:")
    endpoint = os.environ.get(_ENDPOINT) if uri_parts(path).scheme in ("s3", "s3a", "s3n") else None
    StorageOptions((path,), () if endpoint is None else (("endpoint", endpoint),))


def _is_file_uri(path: str) -> bool:
    return path.lower().startswith("file:")


def root_of_uri(path: str) -> str:
    """Return scheme and authority of a URI, such as `s3://bucket`; the scheme is in lower case. Raises `UsageError` if
    the authority is malformed (`s3://[`) or contains credentials (anything before an `@`, except the container name of
    an Azure URI); the message does not show them.
    """
    parts = uri_parts(path)
    if "@" in parts.netloc and parts.scheme not in ("abfs", "abfss", "wasb", "wasbs"):
        host = parts.netloc.rpartition("@")[2]
        raise UsageError(f"{parts.scheme}://{host}: credentials belong in the options {_PREFIX}*, not into the path")
    return f"{parts.scheme}://{parts.netloc}"


def uri_parts(path: str) -> SplitResult:
    """Split a URI. Raises `UsageError` if its host or bucket is malformed; the message names only the scheme."""
    try:
        return urlsplit(path)
    except ValueError:  # such as brackets without an IPv6 address; its text may have credentials
        raise UsageError(f"{path.partition(':')[0]}: the URI has a malformed host or bucket") from None


class _Store:
    """One bucket, container or cluster of an object store or HDFS. It is connected at the first request."""

    def __init__(self, path: str, values: dict[str, str]) -> None:
        parts = uri_parts(path)
        self.root = root_of_uri(path)
        self._scheme = parts.scheme
        self._authority = parts.netloc
        self._retries = Retries.of(values)
        self._values = {name: value for name, value in values.items() if name not in _OF_ALL}
        self._connected: Any = None
        self._strip: Callable[[str], Any] | None = None

    def _connection(self) -> Any:
        if self._connected is None:
            self._connected = self._connect()
        return self._connected

    def _connect(self) -> Any:
        kind, names = _KINDS.get(self._scheme, ("", {}))
        if not kind:
            return self._through_fsspec()
        import pyarrow.fs

        arguments: dict[str, Any] = {}
        for name, value in self._values.items():
            if name not in names:
                raise UsageError(f"option {_PREFIX}{name} is not for {self._scheme}:; there are {_listed(names)}")
            arguments[names[name]] = value.lower() == "true" if name == "anonymous" else value
        if kind in ("S3FileSystem", "GcsFileSystem") and "endpoint_override" in arguments:
            scheme, _, host = arguments["endpoint_override"].rpartition("://")
            arguments |= {"endpoint_override": host, "scheme": scheme or "https"}
        if kind == "AzureFileSystem" and "@" in self._authority:
            arguments.setdefault("account_name", self._authority.partition("@")[2].partition(".")[0])
        if kind == "HadoopFileSystem":
            host, _, port = self._authority.partition(":")
            arguments |= {"host": host or "default", "port": int(port) if port.isdigit() else 0}
        constructor = getattr(pyarrow.fs, kind, None)
        if constructor is None:
            raise UsageError(f"this pyarrow was built without {kind}, which {self._scheme}: needs")
        return constructor(**arguments)

    def _through_fsspec(self) -> Any:
        try:
            import fsspec
        except ImportError:
            known = ", ".join(f"{scheme}:" for scheme in _KINDS)
            needs = f"{self._scheme}: needs the package fsspec: {how_to_install('cloud')}"
            raise UsageError(f"kafkalog reads {known}; {needs}") from None
        import pyarrow.fs

        arguments = {name.replace(".", "_"): value for name, value in self._values.items()}
        try:
            filesystem, _ = fsspec.core.url_to_fs(self.root, **arguments)
        except (ValueError, ImportError) as error:
            raise UsageError(f"{self._scheme}: is not a scheme that fsspec can read here: {error}") from None
        self._strip = filesystem._strip_protocol  # noqa: SLF001 - how fsspec itself names a path in its file systems
        return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(filesystem))

    def inner(self, path: str) -> str:
        """Return the path of a URI in the notation of the library that reads it: `bucket/path` for pyarrow, `/path` for
        HDFS, both without a slash at the end except for the root of HDFS. For other schemes it is the result of the
        fsspec file system's own conversion, which needs the connection.
        """
        if self._scheme not in _KINDS:
            self._connection()
        if self._strip is not None:
            return str(self._strip(path))
        below = path[len(self.root) :].strip("/")
        if self._scheme in ("hdfs", "viewfs"):
            return f"/{below}"
        return f"{self._authority.partition('@')[0]}/{below}".rstrip("/")

    @contextmanager
    def telling(self, doing: str, path: str) -> Iterator[None]:
        """Context manager that converts errors of the library: `FileNotFoundError` becomes `MissingFileError`, and
        `OSError`, `ValueError`, `TypeError` and `ImportError` become `StorageError`. `StorageError` and `UsageError`
        are not converted. `doing`, such as "cannot open the file", begins the message, which is one line of bounded
        length. Secret values of options are replaced by `[hidden]`.
        """
        try:
            yield
        except FileNotFoundError:
            raise MissingFileError(2, "there is no such file", path) from None
        except (OSError, ValueError, TypeError, ImportError) as error:
            if isinstance(error, StorageError | UsageError):
                raise
            text = " ".join(str(error).split())
            for name, value in self._values.items():
                if value and name not in ("endpoint", "region", "account", "user", "anonymous"):
                    text = text.replace(value, "[hidden]")
            shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
            raise StorageError(getattr(error, "errno", None), f"{doing}: {shown}", path) from None

    # -- the methods of `log.disk.remote.Storage` -----------------------------------------------------------------

    def open(self, path: str) -> RemoteFile:
        """Open the file with the URI `path` for reading. Within `looking_once`, a file with cached content is returned
        without a request. Raises `MissingFileError` if the file does not exist. Raises `StorageError` for other errors
        of the store. Raises `UsageError` for an option or scheme that is not supported.
        """
        with self.telling("cannot open the file", path):
            known = looked_at()
            if known is not None and (content := known.content(path)) is not None:
                return Content(content)
            if known is not None and known.is_missing(path):
                raise FileNotFoundError
            return _File(self, path, self.asking(lambda: self._connection().open_input_file(self.inner(path))))

    def asking(self, act: Callable[[], _T]) -> _T:
        """Call `act`, a request to the store, and return its result. The call is repeated after errors that may
        pass.
        """
        return self._retries.call(act)

    def entries(self, path: str) -> list[RemoteEntry]:
        """Return the entries of a directory, in the order of the store. Within `looking_once` the listing is cached and
        not requested again; the list is the cached one, so the caller must not change it. Raises `MissingFileError` if
        the directory does not exist. Raises `StorageError` for other errors of the store. Raises `UsageError` for an
        option or scheme that is not supported.
        """
        import pyarrow.fs

        known, place = looked_at(), path.rstrip("/")
        if known is not None and place in known.listings:
            return known.listings[place]
        with self.telling("cannot list the directory", path):
            selector = pyarrow.fs.FileSelector(self.inner(path))
            infos = self.asking(lambda: self._connection().get_file_info(selector))
        entries = [_entry(info, path) for info in infos]
        if known is not None:
            known.listings[place] = entries
        return entries

    def list_ahead(self, root: str, directories: list[str], known: LookedAt) -> None:
        """List `directories`, which are below `root`, and add their entries to `known`, which must be the cache of the
        present `looking_once`. Directories that are already in it are not listed again. Raises `StorageError` if a
        request fails.

        Up to 16 directories are listed one by one, in several threads; a missing one raises `MissingFileError`. For
        more directories, one recursive listing of `root` is requested; a missing one then has no entries.
        """
        wanted = [path for path in directories if path not in known.listings]
        if len(wanted) <= _SINGLY:
            in_threads(self.entries, wanted)
            return
        import pyarrow.fs

        with self.telling("cannot list the directory", root):
            selector = pyarrow.fs.FileSelector(self.inner(root), recursive=True)
            infos = self.asking(lambda: self._connection().get_file_info(selector))
        listings: dict[str, list[RemoteEntry]] = {path: [] for path in wanted}
        inner = self.inner(root)
        for info in infos:
            directory = f"{root.rstrip('/')}{info.path[len(inner) :].rpartition('/')[0]}"
            if directory in listings:
                listings[directory].append(_entry(info, directory))
        known.listings.update(listings)

    def entry(self, path: str) -> RemoteEntry | None:
        """Return the file or directory with this URI; None if it does not exist. A directory of an object store exists
        if something is below it. Raises `StorageError` if a request fails, `UsageError` for an option or scheme that is
        not supported.

        Within `looking_once`, cached listings are used if possible, and a listing of the path itself may be added to
        them. The root of the store then always exists. A directory that is known only from its own listing has
        size and modification time 0.
        """
        import pyarrow.fs

        known, place = looked_at(), path.rstrip("/")
        if known is not None:
            if (entry := known.entry(place)) is not None:
                return entry
            if known.is_missing(place):
                return None
            if known.listings.get(place) or place == self.root or self._is_directory(place):
                return RemoteEntry(name=place.rpartition("/")[2], path=place, directory=True, size=0, modified_ns=0)
        with self.telling("cannot look", path):
            info = self.asking(lambda: self._connection().get_file_info(self.inner(path)))
        return None if info.type is pyarrow.fs.FileType.NotFound else _entry(info, os.path.dirname(path.rstrip("/")))

    def _is_directory(self, path: str) -> bool:
        """Whether anything is below a path. The path is listed for this, and the listing is cached, because callers
        need it next.
        """
        try:
            return bool(self.entries(path))
        except MissingFileError:
            return False


def _entry(info: Any, directory: str) -> RemoteEntry:
    import pyarrow.fs

    name = info.base_name
    is_directory = info.type is pyarrow.fs.FileType.Directory
    path = f"{directory.rstrip('/')}/{name}"
    return RemoteEntry(
        name=name,
        path=path,
        directory=is_directory,
        size=0 if is_directory else int(info.size or 0),
        modified_ns=int(info.mtime_ns or 0),
    )


class _File:
    """An open file of an object store. The bytes of the last request are kept, because the next read often begins where
    the last one ended.
    """

    def __init__(self, store: _Store, path: str, file: Any) -> None:
        self._store = store
        self._path = path
        self._file = file
        self._piece = b""
        self._start = 0
        with store.telling("cannot open the file", path):
            self._size = int(store.asking(file.size))

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._size

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from byte `position`. Fewer bytes, perhaps none, are returned only if the file ends
        before that. A read within the kept bytes makes no request. Otherwise at least 256 KiB are requested, if the
        file has that many after `position`, and replace the kept bytes. Raises `StorageError` if the request fails.
        """
        length = min(length, self._size - position)
        if length <= 0:
            return b""
        start = position - self._start
        if start < 0 or start + length > len(self._piece):
            wanted = min(max(length, _READ_AHEAD), self._size - position)
            with self._store.telling(f"cannot read at byte {position}", self._path):
                self._piece = self._store.asking(lambda: self._whole(wanted, position))
            self._start, start = position, 0
        return self._piece if start == 0 and length == len(self._piece) else self._piece[start : start + length]

    def _whole(self, length: int, position: int) -> bytes:
        data: bytes = self._file.read_at(length, position)
        if len(data) < length:
            raise ShortReadError(f"the answer has {len(data)} bytes of {length}")
        return data

    def close(self) -> None:
        """Close the file."""
        self._piece = b""
        self._file.close()


def _listed(names: Mapping[str, str]) -> str:
    return ", ".join(_PREFIX + name for name in names)
