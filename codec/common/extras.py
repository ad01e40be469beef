"""Optional packages, and how to install one that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from kafkalog.codec.common.errors import UsageError

__all__ = ["how_to_install", "needed"]

_OPTIONAL = frozenset({
    "confluent_kafka", "cryptography", "deltalake", "fastavro", "fsspec", "google", "grpc_tools", "numpy",
    "pyarrow", "pyiceberg", "pyruhvro", "pyspark", "sqlalchemy",
})  # fmt: skip


@contextmanager
def needed(what: str, extra: str) -> Iterator[None]:
    """Context manager around imports for the feature `what`. If one of kafkalog's optional packages, or a module of
    one, is missing, it raises `UsageError` with the command that installs `extra` (a name in `kafkalog[...]`). A
    `ModuleNotFoundError` for any other module is not caught.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _OPTIONAL:
            raise
        raise UsageError(f"{what} needs the package {package}: {how_to_install(extra)}") from error


def how_to_install(extra: str) -> str:
    """Return a phrase that says how to install an extra: with pip, or in a virtual environment of another Python if
    this one has no pip, as in the single-file program.
    """
    wanted = f"pip install 'kafkalog[{extra}]'"
    if find_spec("pip") is not None:
        return f"install kafkalog[{extra}] ({wanted})"
    return f"this Python has no pip to add it with; where there is another: python3 -m venv DIR && DIR/bin/{wanted}"
