"""Options of the commands that plan or act: mode, settings under Kafka's names, the clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from kafkalog.cli.options.common import CONFIG, JOBS, RELEASE
from kafkalog.cli.options.paths import SERVER_PROPERTIES, settings_in
from kafkalog.cli.options.remote import Remote
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.options.times import AT
from kafkalog.codec.common.shell import shell_option
from kafkalog.codec.errors import UsageError
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.directories.selection import Selection
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.facts.modes import Mode
from kafkalog.recovery.facts.rules import Rules, mode_named
from kafkalog.recovery.options import RecoveryOptions
from kafkalog.words.commands import Given

__all__ = [
    "CLUSTER_METADATA",
    "EVERY",
    "command_words",
    "given_words",
    "options_of",
    "parse_settings",
    "planning_options",
]

Function = TypeVar("Function", bound=Callable[..., Any])


CLUSTER_METADATA = click.option(
    "--cluster-metadata",
    is_flag=True,
    help="Include KRaft's metadata log. Truncating it can drop committed metadata: prefer another controller.",
)


EVERY = click.option("--all", "every", is_flag=True, help="List every partition that changes, and the ways of each.")


def planning_options(function: Function) -> Function:
    """The options that decide a plan."""
    for option in (
        AT,
        CONFIG,
        SERVER_PROPERTIES,
        RELEASE,
        click.option("--topic-id", metavar="UUID", help="Topic id for a partition whose own topic id cannot be read."),
        click.option(
            "--repair-bits",
            type=click.Choice([proof.name.lower() for proof in Proof]),
            help="Correct a single flipped bit if the proof is at least this strong.",
        ),
        CLUSTER_METADATA,
        click.option(
            "--meta-properties",
            is_flag=True,
            help="Also write a lost meta.properties, by the broker's other log directories and its metadata log.",
        ),
        JOBS,
        click.option(
            "--copy",
            "copies",
            metavar="DIR",
            multiple=True,
            type=click.Path(exists=True, file_okay=False, readable=False),
            help="Another copy (a broker's volume, a snapshot): show what merging would keep; --mode merge uses it.",
        ),
        selection_options,
        click.option("--full", is_flag=True, help="Also examine segments below the recovery point."),
        click.option(
            "--mode",
            default="safe",
            show_default=True,
            metavar="MODE",
            shell_complete=lambda _ctx, _param, begun: [each for each in Mode if each.startswith(begun)],
            help="How to recover: safe, salvage, merge, remote, strict, kafka or set-aside.",
        ),
    ):
        function = option(function)
    return function


def options_of(given: Mapping[str, Any]) -> RecoveryOptions:
    """What the options of `planning_options` ask for."""
    server = settings_in(given["server_properties"])
    settings = LogSettings.from_server_properties(server)
    proof = given["repair_bits"]
    rules = Rules(
        mode=mode_named(given["mode"]),
        config={**settings, **parse_settings(given["config"])},
        at=given["at"],
        full=given["full"],
        repair_bits=None if proof is None else Proof[proof.upper()],
        topic_id=given["topic_id"],
        cluster_metadata=given["cluster_metadata"],
        meta_properties=given["meta_properties"],
        release=given["release"],
        server=server,
    )
    return RecoveryOptions(rules=rules, select=given["chosen"], copies=given["copies"])


_SINGLE = {
    "at": "--at", "server_properties": "--server-properties", "release": "--release", "topic_id": "--topic-id",
}  # fmt: skip


_FLAGS = {"full": "--full", "cluster_metadata": "--cluster-metadata", "meta_properties": "--meta-properties"}
_OF_ACTING = {"into": "--into", "quarantine": "--quarantine"}


def given_words(given: Mapping[str, Any], paths: Sequence[str] = (), **acting: Any) -> Given:
    """What is repeated of the options of `planning_options`, and of those that only a command has that acts."""
    places = [(option, acting[name]) for name, option in _OF_ACTING.items() if acting.get(name)]
    how = [word for option, place in places for word in (option, os.path.abspath(place))]
    if acting.get("into"):
        remote: Remote = acting["remote"]
        how += [*remote.words(), *(["--keep-remote"] if acting["keep_remote"] else [])]
    how += [option for name, option in (("mark_clean", "--mark-clean"), ("moved", "--moved")) if acting.get(name)]
    return Given([*command_words(given), *how], how, os.path.abspath(paths[0]) if acting.get("into") else None)


def command_words(given: Mapping[str, Any]) -> list[str]:
    """The options that say what is planned for, all but the mode and bit repair."""
    words: list[str] = []
    for name, option in _SINGLE.items():
        if given.get(name) is not None:
            words += shell_option(option, str(given[name]))
    chosen: Selection = given["chosen"]
    repeated = {"--config": given["config"], "--topic": sorted(chosen.topics),
                "--partition": sorted(chosen.partitions), "--exclude": sorted(chosen.excluded)}  # fmt: skip
    for option, values in repeated.items():
        for value in values:
            words += shell_option(option, str(value))
    return [*words, *(option for name, option in _FLAGS.items() if given.get(name))]


def parse_settings(values: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE pairs."""
    settings: dict[str, str] = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"--config needs NAME=VALUE, not {text!r}")
        settings[name.strip()] = value
    return settings
