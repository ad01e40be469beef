"""`kafkalog merge`: several copies of a partition made into one healthy log."""

from __future__ import annotations

import click

from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter, escape_controls, print_json, print_table
from kafkalog.cli.settings import parse_settings
from kafkalog.recovery.broker.settings import LogSettings
from kafkalog.recovery.merge import merge_replicas

__all__ = ["command"]


@click.command(name="merge")
@click.argument("copies", nargs=-1, required=True, metavar="PARTITION_DIR...")
@click.option("--into", "target", required=True, metavar="DIR", help="Where the merged partition directory is written.")
@click.option("--config", "config", metavar="NAME=VALUE", multiple=True, help="A setting under Kafka's name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(copies: tuple[str, ...], target: str, config: tuple[str, ...], as_json: bool) -> int:
    """Merge copies of one topic-partition, from several brokers or volumes, by the lineage of leader epochs.

    The copies are only read.  Says which copy gave each range of offsets, and which offsets no copy has.
    """
    result = merge_replicas(copies, target, settings=LogSettings.from_names(parse_settings(config)))
    if as_json:
        print_json(result.as_dict())
        return Outcome.CHANGED
    print_table(
        f"merged into {escape_controls(result.target)}",
        ["first offset", "last offset", "from"],
        [[each.first_offset, each.last_offset, each.source] for each in result.ranges],
    )
    with LineWriter() as writer:
        for first, last in result.gaps:
            writer.write(f"no copy has offsets {first} to {last}")
        for source, count in result.dropped.items():
            writer.write(f"{count} batches of {escape_controls(source)} were replaced by a newer leader epoch")
    return Outcome.CHANGED
