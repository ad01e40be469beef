"""Asking before something is changed."""

from __future__ import annotations

import sys

import click

from kafkalog.codec.errors import RecoveryRefused

__all__ = ["confirm"]


def confirm(question: str) -> None:
    """Ask on the terminal; `RecoveryRefused` where there is none, or where the answer is no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RecoveryRefused(
            "Not a terminal, cannot ask for confirmation; nothing was changed. Pass --yes to proceed.", reason="confirm"
        )
    if not click.confirm(question, default=False):
        raise RecoveryRefused("nothing was changed", reason="confirm")
