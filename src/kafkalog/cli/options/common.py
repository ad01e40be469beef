"""Simple options that several commands share."""

from __future__ import annotations

import click

from kafkalog.cli.options.numbers import JOB_COUNT

__all__ = ["CHROOT", "CONFIG", "JOBS", "JSON", "RELEASE", "REPLICA", "SHOW_SECRETS", "YES"]

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line (docs/json).")
REPLICA = click.option(
    "--replica",
    metavar="longest|PATH",
    help="Directory to read if a topic-partition is in two of them.",
)
CHROOT = click.option("--chroot", metavar="ZNODE", help="ZooKeeper path of the cluster, as in zookeeper.connect.")
CONFIG = click.option(
    "--config",
    "config",
    metavar="NAME=VALUE",
    multiple=True,
    help="A topic or broker setting under Kafka's own name; may be repeated.",
)
RELEASE = click.option(
    "--release",
    metavar="VERSION",
    help="Predict the start of this release of Kafka [every release that can have written the files].",
)
SHOW_SECRETS = click.option("--show-secrets", is_flag=True, help="Print credentials and passwords instead of [hidden].")
YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def _one_per_processor() -> int:
    from kafkalog.log.disk.process import processors  # `--help` needs no log

    return processors()


JOBS = click.option(
    "--jobs", metavar="N", type=JOB_COUNT, callback=lambda _ctx, _param, value: value or _one_per_processor(),
    help="Number of partitions to process in parallel [one per CPU].",
)  # fmt: skip
