"""Options of the commands that plan or carry out recoveries, derived from the fields of their requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from kafkalog.cli.options.common import JOBS
from kafkalog.cli.options.pairs import pairs_of
from kafkalog.cli.options.paths import SERVER_PROPERTIES, settings_in
from kafkalog.cli.options.requests import request_fields, request_option
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.options.times import AT
from kafkalog.codec.common.options import option_words
from kafkalog.codec.common.shell import shell_option
from kafkalog.log.reading.record_filter import RecordFilter
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.facts.recovery_request import Recovery
from kafkalog.recovery.modes.table import Mode
from kafkalog.words.commands import Given

__all__ = [
    "EVERY", "given_words", "parse_settings", "planning_options", "planning_words", "record_filter", "recovery_asked",
]  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])

EVERY = click.option("--all", "every", is_flag=True, help="List every partition that changes, with the ways for each.")


def record_filter(given: Mapping[str, Any]) -> RecordFilter:
    """Return the record filter for parsed options: bounds of offsets and times, and the isolation level. Missing
    offsets are None.
    """
    return RecordFilter(
        start_offset=given.get("start_offset"), end_offset=given.get("end_offset"), start_timestamp=given["start_time"],
        end_timestamp=given["end_time"], isolation_level=given["isolation_level"],
    )  # fmt: skip


def planning_options(function: Function) -> Function:
    """Add the options that determine a recovery plan, such as `--mode` and `--copy`, to a click command, and return
    it.
    """
    proofs = click.Choice([proof.name.lower() for proof in Proof])
    directory = click.Path(exists=True, file_okay=False, readable=False)
    for option in (
        AT,
        request_option(Recovery, "config"),
        SERVER_PROPERTIES,
        request_option(Recovery, "release"),
        request_option(Recovery, "topic_id"),
        request_option(Recovery, "repair_bits", type=proofs),
        request_option(Recovery, "cluster_metadata"),
        request_option(Recovery, "meta_properties"),
        JOBS,
        request_option(Recovery, "copies", type=directory),
        selection_options,
        request_option(Recovery, "full"),
        request_option(Recovery, "mode", default="safe", show_default=True, shell_complete=_modes),
    ):
        function = option(function)
    return function


def _modes(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    return [mode for mode in Mode if mode.startswith(begun)]


def recovery_asked(given: Mapping[str, Any]) -> Recovery:
    """Return the recovery request from the parsed options of `planning_options`. Reads the `--server-properties`
    file. Raises `UsageError` if a setting or the file is invalid, `StorageError` if the file cannot be read.
    """
    return Recovery(
        select=given["chosen"],
        config=parse_settings(given["config"]),
        server=settings_in(given["server_properties"]),
        **{name: value for name, value in request_fields(Recovery, given).items() if name != "config"},
    )


def given_words(
    request: Recovery,
    server_properties: str | None,
    paths: Sequence[str] = (),
    into: str | None = None,
    remote: Sequence[str] = (),
) -> Given:
    """Return the options that a recommended command repeats. With `into`, they include `--into` and `remote`, the
    options of a remote tier, and the first of `paths` is the original directory.
    """
    how = [] if into is None else ["--into", os.path.abspath(into)]
    how += [*option_words(request, of_acting=True), *remote]
    original = None if into is None else os.path.abspath(paths[0])
    return Given(words=[*planning_words(request, server_properties), *how], of_acting=how, original=original)


def planning_words(request: Recovery, server_properties: str | None) -> list[str]:
    """Return the options of a plan as words of a command line. The mode, bit repair, copies and the options that only
    affect the execution are omitted, and so is every option with its default value. `server_properties` is the path of
    the option `--server-properties`, which comes after `--at`; None omits it.
    """
    words = option_words(request, of_acting=False)
    if server_properties is None:
        return words
    at = 0 if request.at is None else len(shell_option("--at", str(request.at)))
    return [*words[:at], *shell_option("--server-properties", server_properties), *words[at:]]


def parse_settings(values: Sequence[str]) -> dict[str, str]:
    """Return name -> value from the texts of `--config`. Raises `UsageError` if one is not NAME=VALUE."""
    return pairs_of("--config", values)
