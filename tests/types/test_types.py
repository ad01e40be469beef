"""`kafkalog.types` gives the types of signatures, and no function."""

from __future__ import annotations

import inspect

import kafkalog
import kafkalog.types


def test_they_are_types_that_are_not_at_the_top() -> None:
    names: list[str] = vars(kafkalog.types)["__all__"]
    assert not any(inspect.isfunction(getattr(kafkalog.types, name)) for name in names)
    assert not set(names) & set(vars(kafkalog)["__all__"])


def test_a_report_is_of_its_type() -> None:
    assert kafkalog.types.VerifyReport.__module__ == "kafkalog.recovery.checks.report"
