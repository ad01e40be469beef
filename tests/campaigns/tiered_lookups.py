"""What one look-up in a remote log of a thousand segments asks an object store for: ranges and bytes.

    python tests/campaigns/tiered_lookups.py [--segments N]

with ``tests/support`` on the path.  By time and by offset, with the events of `__remote_log_metadata` and with a bucket
alone; each in a log that was just opened.  The largest of several look-ups is printed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from testkit.made.many_segments import RECORDS, SEGMENTS, START, asked_for, many_segments
from testkit.serving.tiny_s3 import serving

PLACES = (0.0, 0.1234, 0.5, 0.617, 0.99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=SEGMENTS)
    segments = parser.parse_args().segments
    with tempfile.TemporaryDirectory() as work, serving(many_segments(Path(work), segments)) as store:
        for alone in (False, True):
            for by_time in (True, False):
                found = []
                for place in PLACES:
                    offset = int(place * segments * RECORDS)
                    moment = START + 1000 * offset - 1 if by_time else None
                    found.append(asked_for(Path(work), store, alone=alone, timestamp=moment, offset=offset))
                known = "a bucket alone" if alone else "the events"
                ranges, sent = max(each[1] for each in found), max(each[2] for each in found)
                what = "time" if by_time else "offset"
                print(f"by {what} in {found[0][0]} segments, with {known}: {ranges} ranges, {sent} bytes")


if __name__ == "__main__":
    main()
