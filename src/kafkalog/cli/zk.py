"""`kafkalog zk`: the znode tree as of any transaction, from ZooKeeper's logs and snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkalog.cli.cluster_options import JSON_LINES, SHOW_SECRETS, finish, print_lines
from kafkalog.cli.output import print_table, text_of
from kafkalog.cli.times import time_text
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.kafka_nodes import shown_data
from kafkalog.cluster.zookeeper.node_lines import hidden_znode_line, znode_line

__all__ = ["Zxid", "command"]


if TYPE_CHECKING:
    _NumberType = click.ParamType[int]
else:
    _NumberType = click.ParamType  # not generic before click 8.4


class Zxid(_NumberType):
    """A transaction id: decimal, or hexadecimal after 0x."""

    name = "zxid"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        text = str(value).strip()
        try:
            number = int(text, 16 if text.lower().startswith("0x") else 10)
        except ValueError:
            number = -1
        if not 0 <= number < 1 << 63:
            self.fail(f"{text!r} is not a zxid (decimal, or 0x…)", param, ctx)
        return number


@click.command(name="zk")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=str))
@JSON_LINES
@click.option("--zxid", type=Zxid(), metavar="N", help="As of this transaction (decimal or 0x…), it included.")
@click.option("--below", default="/", metavar="ZNODE", help="Only this node and those below it.")
@click.option("--hide-secrets", is_flag=True, help="With --json: credentials as [hidden] in place of the bytes.")
@SHOW_SECRETS
def command(
    paths: tuple[str, ...], as_json: bool, zxid: int | None, below: str, hide_secrets: bool, show_secrets: bool
) -> int:
    """The tree of a ZooKeeper server, from its dataDir (and dataLogDir).

    JSON lines hold the bytes of every node as they are: guard them like the directory itself, or use --hide-secrets.
    """
    found = tree_at(open_zookeeper(*paths), zxid)
    below = below.rstrip("/")
    chosen = [
        (path, node)
        for path, node in sorted(found.tree.nodes.items())
        if path == (below or "/") or path.startswith(f"{below}/")
    ]
    if as_json:
        print_lines(hidden_znode_line(path, node) if hide_secrets else znode_line(path, node) for path, node in chosen)
    else:
        print_table(
            f"0x{found.zxid:x} ({found.snapshot or 'no snapshot'} and {found.transactions} transactions)",
            ["node", "created", "modified", "at", "version", "owner", "data"],
            [
                [
                    path,
                    f"0x{node.czxid:x}",
                    f"0x{node.mzxid:x}",
                    time_text(node.mtime) if node.mtime else "",
                    node.version,
                    f"0x{node.ephemeral_owner & (1 << 64) - 1:x}" if node.ephemeral_owner else "",
                    text_of((node.data if show_secrets else shown_data(path, node.data)) or b""),
                ]
                for path, node in chosen
            ],
        )
    return finish(found.findings)
