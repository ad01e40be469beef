"""Ask the user before something is changed."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from kafkalog.codec.common.errors import RecoveryRefused

__all__ = ["confirm"]


def confirm(question: str, *, look: Callable[[], None] = lambda: None) -> None:
    """Ask on the terminal; raises `RecoveryRefused` without a terminal, or if the answer is no.

    `look` is called before the question; it may print, or refuse, what takes time to find out.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RecoveryRefused(
            "Not a terminal, cannot ask for confirmation; nothing was changed. Pass --yes to proceed.", reason="confirm"
        )
    look()
    if not click.confirm(question, default=False):
        raise RecoveryRefused("nothing was changed", reason="confirm")
