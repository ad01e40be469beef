"""A log directory whose names and bytes would be markup, marks or commands if anybody took them for that."""

from __future__ import annotations

from pathlib import Path

from testkit.made.batches import simple

TOPIC = "a<script><img src=x onerror=alert(1)>`|@all"


def hostile_directory(folder: Path) -> Path:
    """Made in `folder`: damaged, with a file that is not Kafka's."""
    root = folder / "logs\u202egnp.<b>\x1b[31m"
    partition = root / f"{TOPIC}-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020d}.log").write_bytes(simple(3, 0) + b"</script><script>alert(1)</script>" + simple(3, 3))
    (partition / "<i>\u2028`|.txt").write_bytes(b"")
    return root
