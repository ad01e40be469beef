"""Protobuf's own compiler, run in a separate process because schemas may come from anybody.

It is the compiler in the package grpcio-tools. The process has limits for memory and time, so no schema can affect this
process.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from kafkalog.codec.common.extras import needed
from kafkalog.values.payloads import UndecodableError

__all__ = ["MAIN", "compiled"]

MAIN = "kafkalog.main.proto"
"""file name of a schema that has no name"""
_LARGEST_TEXT = 4 * 1024 * 1024
_LARGEST_DESCRIPTORS = 64 * 1024 * 1024
_SECONDS = 20
_MOST_KEPT = 64
"""compiled schemas"""
_MEMORY = 2 * 1024 * 1024 * 1024
_FILE = re.compile(r"(?!/)(?:[\w.-]+/){0,20}[\w.-]{1,100}\Z", re.ASCII)
_PROGRAM = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY}, {_MEMORY}))
resource.setrlimit(resource.RLIMIT_CPU, ({_SECONDS}, {_SECONDS}))
resource.setrlimit(resource.RLIMIT_FSIZE, ({_LARGEST_DESCRIPTORS}, {_LARGEST_DESCRIPTORS}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
site, *arguments = sys.argv[1:]
sys.path.append(site)
from grpc_tools import protoc
sys.exit(protoc.main(["protoc", "-I.", f"-I{{site}}/grpc_tools/_proto", *arguments]))
"""


def compiled(files: Mapping[str, str], main: str = MAIN) -> bytes:
    """Compile a schema; return the encoded `FileDescriptorSet` of the schema and all schemas that it imports. `files`
    maps file names to texts, `main` among them.

    The last 64 results are cached in this process. Raises `UndecodableError` for a schema that does not compile or
    takes too long, and `UsageError` if the compiler is not installed.
    """
    result = _once(tuple(sorted(files.items())), main)
    if isinstance(result, str):
        raise UndecodableError(result)
    return result


@lru_cache(maxsize=_MOST_KEPT)
def _once(files: tuple[tuple[str, str], ...], main: str) -> bytes | str:
    """Return the compiled schema, or the reason why it does not compile; both are cached."""
    try:
        return _compile(dict(files), main)
    except UndecodableError as error:
        return str(error)


def _compile(files: Mapping[str, str], main: str) -> bytes:
    with needed("decoding Protobuf", "values"):
        import grpc_tools
    site = str(Path(grpc_tools.__file__).parents[1])
    if sum(map(len, files.values())) > _LARGEST_TEXT or any(map(_is_no_name, files)):
        raise UndecodableError("its Protobuf schema is too large, or imports a file by an impossible name")
    with tempfile.TemporaryDirectory(prefix="kafkalog-") as folder:
        for name, text in files.items():
            file = Path(folder, name)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8", errors="strict", newline="")
            except (OSError, UnicodeEncodeError):
                raise UndecodableError("its Protobuf schema has names that no file can have, or no text") from None
        command = [sys.executable, "-I", "-c", _PROGRAM, site, "--include_imports", "--descriptor_set_out=out", main]
        try:
            done = subprocess.run(  # noqa: S603  Python itself, and a program that is written above
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=3 * _SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UndecodableError("its Protobuf schema takes too long to compile") from None
        if done.returncode:
            raise UndecodableError("its Protobuf schema does not compile")
        return Path(folder, "out").read_bytes()


def _is_no_name(name: str) -> bool:
    return _FILE.match(name) is None or ".." in name.split("/") or "." in name.split("/") or name == "out"
