"""Options that fields of requests declare."""

from __future__ import annotations

import inspect
import pydoc

import pytest
from msgspec import Struct

import kafkalog
from kafkalog.codec.common.options import options_of_fields

REQUESTS = [
    kafkalog.Recovery, kafkalog.Compaction, kafkalog.Undelete, kafkalog.Undo, kafkalog.Purge, kafkalog.Merge,
    kafkalog.IndexRebuild, kafkalog.Export,
]  # fmt: skip


@pytest.mark.parametrize("request_type", REQUESTS)
def test_help_of_a_request_names_options_and_does_not_repeat_them(request_type: type[Struct]) -> None:
    options = options_of_fields(request_type)
    signature = str(inspect.signature(request_type))
    shown = pydoc.plain(pydoc.render_doc(request_type))
    shown = shown.replace("\n |  ", "\n")  # Python 3.13 shows a line for each parameter
    assert "".join(signature.split()) in "".join(shown.split())
    for name, option in options.items():
        assert f"Option('{option.name}')]" in signature.partition(f"{name}: ")[2]
        assert not option.help or option.help not in signature
    assert "is_repeated" not in signature
    assert options
