"""Options of kcat and kafka-dump-log that make no sense without a broker: each is refused with its reason."""

from __future__ import annotations

from kafkalog.cli.options.hints import NO_BROKER, refused_with_hints

__all__ = ["refused_options"]

_BUILD = "nothing is produced here; kafkalog build writes partition directories from files"
_VALUED = {
    "-b": NO_BROKER,
    "-X": f"it sets a property of a client, and {NO_BROKER}",
    "-F": f"it names a client's configuration, and {NO_BROKER}",
    "-m": f"it is a time to wait for a broker, and {NO_BROKER}",
    "-d": f"it debugs a client, and {NO_BROKER}",
    "-r": "kafkalog contacts no schema registry",
    "-M": "kafkalog simulates no cluster",
    "-z": _BUILD,
    "-k": _BUILD,
    "-H": _BUILD,
}
_FLAGS = {
    "-P": _BUILD,
    "-l": _BUILD,
    "-T": _BUILD,
    "-L": "kafkalog ls lists topics and partitions",
    "-Q": "kafkalog find looks for the offsets of times",
    "-E": f"it goes on after a broker's errors, and {NO_BROKER}",
    "-O": "kcat takes it and does nothing with it; %o in -f prints the offset",
    "-v": "there is nothing more to say; --metadata shows what batches say of records",
}


refused_options = refused_with_hints(flags=_FLAGS, valued=_VALUED)
"""Declares them, hidden from the help."""
