"""Log directories: find, open and read them as a consumer would, without a broker and without trusting a byte.

Names are imported when somebody asks for them: who reads needs nothing that writes.  The stub beside this file is the
one table of them.
"""

from kafkalog.codec.lazily import homes, lazily

_HOMES = homes(__name__)

__all__ = list(_HOMES)

__getattr__ = lazily(__name__, _HOMES)
