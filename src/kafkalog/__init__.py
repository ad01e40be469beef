"""Read, write, check, repair and query Apache Kafka's log directories without a broker.

The public names.  Each is imported when it is first used, so that `import kafkalog` costs nothing.  The stub beside
this file is the one table of them: type checkers read it, and so does this file when it is imported.
"""

from __future__ import annotations

from kafkalog.codec.lazily import homes, lazily

__version__ = "0.1.0"

_HOMES = homes(__name__)
_find = lazily(__name__, _HOMES)

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    return _find("open_log_dir" if name == "open" else name)  # not in `__all__`: there, `open` is the builtin


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "open"})
