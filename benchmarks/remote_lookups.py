"""What one look-up in a remote tier asks for: `python benchmarks/remote_lookups.py`.

Requests for ranges, and bytes, of a look-up by time in a log that was just opened, from a bucket on loopback: in 1,000
small segments, and in a few with 30,000 entries in each index; by the events and of the bucket alone; in both layouts.
Also what opening the log takes.  The medians of 3 look-ups over the whole log.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from testkit.made.many_segments import START, many_segments, opened
from testkit.recorded.aiven_objects import as_aiven
from testkit.serving.tiny_s3 import serving

LOGS = {"1,000 segments": (1000, 3), "3 segments of 30,000 batches": (3, 30_000)}
LOOK_UPS = 3
TIERS = {"local-tiered-storage": "remote", "aiven": "aiven"}


def main() -> None:
    print(f"{'log':30}{'layout':22}{'known by':10}{'opening':>9}{'ranges':>8}{'most':>6}{'KiB':>8}")
    for name, (segments, records) in LOGS.items():
        with tempfile.TemporaryDirectory() as work:
            root = many_segments(Path(work), segments, records=records)
            as_aiven(root / "remote", root / "aiven")
            for layout, place in TIERS.items():
                for alone in (False, True):
                    row(name, layout, place, root, alone, segments * records)


def row(name: str, layout: str, place: str, root: Path, alone: bool, records: int) -> None:
    """Print one line."""
    opening, ranges, sizes = 0, [], []
    with serving(root) as store:
        for part in range(LOOK_UPS):
            store.requests.clear()
            partition = opened(root, store, alone=alone, tier=place)
            opening = len(store.requests)
            offset = (records - 2) * part // LOOK_UPS + 1
            store.requests.clear()
            store.sent = 0
            found = partition.offset_for_timestamp(START + 1000 * offset - 1)
            if found is None or found.offset != offset:
                raise AssertionError(f"{found}, and not {offset}")
            ranges.append(sum(each.startswith("GET") and "bytes=" in each for each in store.requests))
            sizes.append(store.sent)
    known = "listing" if alone else "events"
    median = statistics.median(ranges)
    kib = statistics.median(sizes) / 1024
    print(f"{name:30}{layout:22}{known:10}{opening:9}{median:8.0f}{max(ranges):6}{kib:8.1f}", flush=True)


if __name__ == "__main__":
    main()
