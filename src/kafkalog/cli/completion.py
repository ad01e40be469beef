"""`kafkalog completion`: shell completion of commands, options and paths."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from kafkalog.cli.output import LineWriter

__all__ = ["command"]

_SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> int:
    """Print a script with which a shell completes kafkalog's commands, options and paths.

    For bash: kafkalog completion bash > ~/.local/share/bash-completion/completions/kafkalog

    For zsh: kafkalog completion zsh > "${fpath[1]}/_kafkalog"

    For fish: kafkalog completion fish > ~/.config/fish/completions/kafkalog.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click has these three
    from kafkalog.cli.main import COMPLETE_VARIABLE, cli

    with LineWriter() as writer:
        writer.write(kind(cli, {}, "kafkalog", COMPLETE_VARIABLE).source().strip("\n"))
    return 0
