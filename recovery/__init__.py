"""Recovery: what is wrong with a log directory, what the broker would do, what kafkalog does, and how to undo it.

Names are imported when somebody asks for them: who reads needs nothing that writes.  The stub beside this file is the
one table of them.
"""

if __name__ != "kafkalog.recovery":
    raise ImportError("this folder is kafkalog.recovery; import that name")

from kafkalog.codec.lazily import homes, lazily

_HOMES = homes(__name__)

__all__ = list(_HOMES)

__getattr__ = lazily(__name__, _HOMES)
