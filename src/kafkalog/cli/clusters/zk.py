"""`kafkalog zk`: the znode tree as of any transaction, from ZooKeeper's logs and snapshots."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import CHROOT, JSON, SHOW_SECRETS
from kafkalog.cli.options.past import Zxid
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.questions.opening import chosen_chroot
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.brokers import broker_registration, config_entity
from kafkalog.cluster.zookeeper.cluster_id import bad_cluster_ids
from kafkalog.cluster.zookeeper.kafka_nodes import chroots, shown_data
from kafkalog.cluster.zookeeper.node_lines import znode_line
from kafkalog.cluster.zookeeper.persistent_paths import missing_paths
from kafkalog.cluster.zookeeper.tree import Node
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.unknown import unknown
from kafkalog.words.escapes import text_of

__all__ = ["command"]


def _print_typed(chosen: Sequence[tuple[str, Node]], *, show_secrets: bool) -> None:
    """Print a table of the broker registrations among the znodes, then a table of all configurations among them, with
    one row per setting. An empty table is omitted. Values of secret settings are hidden unless `show_secrets`.
    """
    brokers = [each for path, node in chosen if (each := broker_registration(path, node.data)) is not None]
    if brokers:
        columns: list[str | Column] = [
            "broker",
            "host",
            "port",
            Column("endpoints", drop=1, wraps=True),
            Column("rack", drop=3, if_any=True),
            Column("format", drop=4),
            Column("registered", Kind.TIME, drop=2),
        ]
        rows = [
            [f"{each.chroot}/{each.broker}".lstrip("/"), each.host, each.port, " ".join(map(str, each.endpoints)),
             each.rack, each.version, each.timestamp]
            for each in brokers
        ]  # fmt: skip
        print_table("brokers", columns, rows)
    entities = [config_entity(path, node.data) for path, node in chosen]
    configs = [entity for entity in entities if entity is not None and entity.config]
    if configs:
        rows = [
            [config.chroot, config.type, config.shown_name, name, value]
            for config in configs
            for name, value in (config if show_secrets else config.hidden()).config.items()
        ]
        print_table(
            "configurations",
            [Column("chroot", if_any=True), "of", "name", "setting", Column("value", wraps=True)],
            rows,
        )


@click.command(name="zk")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=str, readable=False))
@click.option("--zxid", type=Zxid(), metavar="N", help="The state after this transaction (decimal or 0x…).")
@click.option(
    "--below",
    default="/",
    metavar="ZNODE",
    help="Only this node and its descendants; with --chroot, relative to it.",
)
@CHROOT
@click.option("--hide-secrets", is_flag=True, help="With --json: print [hidden] instead of credentials.")
@SHOW_SECRETS
@JSON
def command(
    paths: tuple[str, ...],
    zxid: int | None,
    below: str,
    chroot: str | None,
    hide_secrets: bool,
    show_secrets: bool,
    as_json: bool,
) -> int:
    """Show the tree of a ZooKeeper server, from its dataDir (and dataLogDir).

    JSON lines hold every node's bytes, secrets included: protect them like the directory itself, or use
    --hide-secrets.

    Exit code 0 if all is well, 1 if something was found, 4 if something could not be read.
    """
    if hide_secrets and not as_json:
        raise UsageError("--hide-secrets needs --json; a table hides them anyway")
    if show_secrets and as_json:
        raise UsageError("--show-secrets is for tables; JSON lines hold every byte anyway, without --hide-secrets")
    replay = tree_at(open_zookeeper(*paths), zxid)
    places = chroots(replay.tree.nodes)
    if chroot is not None:
        places = [chosen_chroot(places, chroot)]
    below = f"{places[0] if chroot is not None else ''}{below.rstrip('/')}"
    chosen = [
        (path, node)
        for path, node in sorted(replay.tree.nodes.items())
        if path == (below or "/") or path.startswith(f"{below}/")
    ]
    if not chosen and below:
        raise unknown("znode", below, replay.tree.nodes)
    if as_json:
        print_lines(znode_line(path, node, hides=hide_secrets) for path, node in chosen)
    else:
        print_table(
            f"0x{replay.zxid:x} ({replay.snapshot or 'no snapshot'} and {replay.transactions} transactions)",
            [
                "node",
                Column("created", drop=3),
                Column("modified", drop=2),
                Column("at", Kind.TIME, drop=4),
                Column("version", drop=5),
                Column("owner", drop=1, if_any=True),
                Column("data", wraps=True),
            ],
            [
                [
                    path,
                    f"0x{node.czxid:x}",
                    f"0x{node.mzxid:x}",
                    node.mtime or None,
                    node.version,
                    f"0x{node.ephemeral_owner & (1 << 64) - 1:x}" if node.ephemeral_owner else "",
                    text_of((node.data if show_secrets else shown_data(path, node.data)) or b""),
                ]
                for path, node in chosen
            ],
        )
        _print_typed(chosen, show_secrets=show_secrets)
    ids = [finding for place in places for finding in bad_cluster_ids(replay.tree, place)]
    return finish([*replay.findings, *missing_paths(replay.tree, places), *ids])
