"""Advice of the library in the words of the command line."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.codec.advice import Advice, Ask

__all__ = ["WORDS", "in_options"]

WORDS: Mapping[Ask, str] = {
    Ask.ACCEPT_LOSS: "--accept-loss",
    Ask.QUARANTINE: "--quarantine",
    Ask.MOVED: "--moved",
    Ask.RECOVER: "`recover`",
    Ask.RECOVER_INTO: "`recover --into DIR`",
    Ask.COMPLETE: "`recover --complete {run}`",
    Ask.UNDO: "`undo --run {run}`",
}


def in_options(advice: Advice) -> str:
    """The advice for those who use the command."""
    if advice.ask is not Ask.WAY:
        return advice.text.replace("{}", WORDS[advice.ask].format(**advice.values), 1)
    from kafkalog.cli.way_words import needs_in  # a table of ways: most advice is of no way

    return advice.text.replace("{}", " ".join(needs_in(advice.values)) or "nothing more", 1)
