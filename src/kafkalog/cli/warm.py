"""`kafkalog warm`: compiles everything that is compiled, once for this machine."""

from __future__ import annotations

import os

import click

from kafkalog.cli.options.common import JSON
from kafkalog.cli.output import print_json
from kafkalog.codec.extras import needed

__all__ = ["command"]


@click.command(name="warm")
@JSON
def command(as_json: bool) -> int:
    """Compile everything now that the first command would have to compile.

    The first command that reads a lot of data compiles what it needs, which takes some seconds; later ones load it from
    the cache of the user or the installation.  No command requires this one; it only moves those seconds.
    """
    with needed("warm", "fast"):
        from kafkalog.codec.kernels.warm import warm

        found = warm()
    if as_json:
        print_json({"kernels": len(found), "places": sorted({os.path.dirname(path) for path in found.values()})})
    else:
        click.echo("All compiled code is ready on this machine.")
    return 0
