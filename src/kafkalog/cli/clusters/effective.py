"""`kafkalog metadata --effective`: the effective settings of topics and brokers, and the source of each."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.cli.lines import print_lines
from kafkalog.cli.shapes.metadata_lines import SettingLine
from kafkalog.cli.tables import Column, print_table
from kafkalog.cluster.questions.effective import EffectiveSetting
from kafkalog.cluster.rules.configuration import Setting
from kafkalog.cluster.rules.secrets import HIDDEN, is_secret_config

__all__ = ["print_effective"]


def print_effective(settings: Sequence[EffectiveSetting], *, as_json: bool, show_secrets: bool) -> None:
    """Print effective settings, as one table or, with `as_json`, as one JSON line each. Unless `show_secrets`, values
    of secret settings such as passwords are replaced by `HIDDEN`; empty values stay empty.
    """

    def shown(setting: Setting) -> str:
        hidden = not show_secrets and setting.value and is_secret_config(setting.given_as)
        return HIDDEN if hidden else setting.value

    if as_json:
        print_lines(
            SettingLine(
                resource=each.resource, name=each.setting.name, value=shown(each.setting), source=each.setting.source,
                given_as=each.setting.given_as,
            )
            for each in settings
        )  # fmt: skip
        return
    print_table(
        "settings that count",
        ["resource", "name", Column("value", wraps=True), Column("source", drop=2), Column("given as", drop=1)],
        [
            [each.resource, each.setting.name, shown(each.setting), each.setting.source.value, each.setting.given_as]
            for each in settings
        ],
    )
