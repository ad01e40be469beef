"""Ask the user before something is changed."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from kafkalog.codec.common.errors import RecoveryRefused

__all__ = ["confirm"]


def confirm(question: str, *, look: Callable[[], None] = lambda: None) -> None:
    """Ask a yes-no question on the terminal; return if the answer is yes. Raises `RecoveryRefused` if the answer is
    no or empty, or if standard input or output is not a terminal; `click.Abort` on Ctrl-C or at the end of input.

    `look` is called just before the question, on a terminal only: it may print more, or raise `RecoveryRefused` after
    a check that takes time.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RecoveryRefused(
            "Not a terminal, cannot ask for confirmation; nothing was changed. Pass --yes to proceed.", reason="confirm"
        )
    look()
    if not click.confirm(question, default=False):
        raise RecoveryRefused("nothing was changed", reason="confirm")
