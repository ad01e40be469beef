"""Record what a broker with Aiven's plugin for tiered storage leaves: ``fixtures/tiered/aiven``.

    python tests/interop/record_aiven.py SOURCE

from the top of the checkout, with ``tests/support`` on the path; SOURCE is the plugin's repository, see
``tests/support/testkit/kafka/aiven_plugin.py``.  Then ``python3 fixtures/check.py --write``.

The story is told by ``fixtures/tiered/README.md``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from record_tiered import FOLDER, VERSION, consumed, save

from testkit.kafka import aiven_plugin
from testkit.kafka.tiered_cluster import DENSE, MOST_LOCAL, TIERED, TieredCluster, pay, produce, quiet

PREFIX = "tiers/"
SERDE = "io.aiven.kafka.tieredstorage.manifest.index.serde"
ALL = {**TIERED, "local.retention.bytes": "-2"}
TOPICS = {
    "orders": MOST_LOCAL, "payments": MOST_LOCAL, "moved": MOST_LOCAL, "both": ALL,
    "as-plain": MOST_LOCAL, "as-zstd-1": MOST_LOCAL, "as-aes": MOST_LOCAL, "as-both": MOST_LOCAL, "plain": {},
}  # fmt: skip
PHASES = (
    ("as-plain", False, None), ("as-zstd-1", True, None), ("as-aes", False, "first"), ("as-both", True, "second"),
)  # fmt: skip


def story(cluster: TieredCluster, class_path: str, keys: Path) -> None:
    for number, (topic, compress, key) in enumerate(PHASES):
        cluster[1].configure(
            aiven_plugin.settings(class_path, cluster.remote, PREFIX, keys, compress=compress, key=key)
        )
        if number:
            cluster[1].start()
        else:
            cluster.start()
            for name, config in TOPICS.items():
                cluster[1].client("create", topic=name, partitions=1, replicas=1, config={**DENSE, **config})
            produce(cluster, "plain", 60, 90)
        produce(cluster, topic, 120, 10 + number)
        produce(cluster, "orders", 70, 20 + number)
        produce(cluster, "both", 60, 30 + number)
        produce(cluster, "moved", 50, 40 + number)
        pay(cluster, 5, 50 + 10 * number)
        quiet(cluster, (1,))
        if number == len(PHASES) - 1:
            cluster[1].client("delete_records", topic="moved", before=70)
            quiet(cluster, (1,), 12)
            read = consumed(cluster, 1, tuple(TOPICS))
        cluster[1].stop()
    note = "Aiven's plugin: plain, compressed, encrypted, both, one after the other; stopped in order"
    save(cluster, "aiven", (1,), read, note, {"remote": cluster.remote / PREFIX, "keys": keys})


def main(source: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        class_path = aiven_plugin.compiled(source, Path(work) / "plugin")
        program = Path(__file__).with_name("aiven") / "ChunkIndexes.java"
        chunk_indexes = aiven_plugin.output_of(class_path, program, f"{SERDE}.{program.stem}")
        keys = Path(work) / "keys"
        aiven_plugin.make_keys(keys, "first", "second")
        own = {"transaction.state.log.num.partitions": 1}
        with TieredCluster(VERSION, Path(work), (1,), **own) as cluster:
            try:
                story(cluster, class_path, keys)
            except BaseException:
                print(cluster[1].output()[-6000:])
                raise
    (FOLDER / "aiven" / "chunk-indexes.jsonl").write_text(chunk_indexes)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
