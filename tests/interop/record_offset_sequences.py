"""Record what Kafka makes of sequences of offsets: ``fixtures/offset-sequences``.

    python tests/interop/record_offset_sequences.py

from the top of the checkout, with ``tests/support`` on the path; then ``python3 fixtures/check.py --write``.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made.offset_sequences import RECORDED, STORIES, Sequence, answer, drawn

SEED, COUNT = 77, 400


def main() -> None:
    sequences: list[Sequence] = [*STORIES.values(), *(drawn(SEED, number) for number in range(COUNT))]
    RECORDED.parent.mkdir(exist_ok=True)
    with KafkaOracle("4.1.0") as kafka, tempfile.TemporaryDirectory() as work, RECORDED.open("w") as file:
        for number, sequence in enumerate(sequences):
            found = answer(sequence, sequence.write(Path(work) / str(number)), kafka)
            file.write(json.dumps({**asdict(sequence), **asdict(found)}) + "\n")


if __name__ == "__main__":
    main()
