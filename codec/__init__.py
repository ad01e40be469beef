"""Bytes to meaning and back: every file of a Kafka log directory, every message format, every compression.

Nothing in this package opens a file, knows a path or reads a clock.  Names are imported when somebody asks for them;
the stub beside this file is the one table of them.
"""

if __name__ != "kafkalog.codec":
    raise ImportError("this folder is kafkalog.codec; import that name")

from kafkalog.codec.lazily import homes, lazily

_HOMES = homes(__name__)

__all__ = list(_HOMES)

__getattr__ = lazily(__name__, _HOMES)
