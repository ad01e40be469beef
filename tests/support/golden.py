"""Writes tests/cli/golden/: what every command prints on three recorded directories, 80 and 160 columns wide.

Run as a program with ``--write`` it brings them up to date, to be looked at by a person; the tests only compare.  Names
of runs and the moments at which they began differ every time: they are blanked, digit by digit.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from kafkalog.cli.main import COMMANDS
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.running.command import kafkalog

__all__ = ["FIXTURES", "GOLDEN", "made"]

GOLDEN = Path(__file__).resolve().parents[1] / "cli" / "golden"
WIDTHS = (80, 160)

FIXTURES = {
    "damaged": ("4.1.1/torn", "quotes-20"),
    "transactions": ("4.1.1/txn", "trades-41"),
    "zookeeper": ("3.9.1-zk/zkhist", "*"),
}
"""Name -> a recorded case, and a topic of it."""

# Commands in the order in which a user might give them: some change `data`, and are taken back.
LINES = """
ls data --damage-first
ls data --damage-first --json
ls data --segments --topic {topic} --partition 0
verify data
verify data --json
plan data
plan data --json
dump data --topic {topic} --partition 0 --max-records 2
dump data --topic {topic} --partition 0 --max-records 2 --json
dump data --topic {topic} --partition 0 --batches --max-records 2
find data --topic {topic} --partition 0 --time latest --offset 3
find data --topic {topic} --partition 0 --time latest --offset 3 --json
top data
top data --json
retention data --at 2019-06-25T16:12:00Z
retention data --at 2019-06-25T16:12:00Z --json
explain data/{topic}-0/00000000000000000000.log --position 0 --max-fields 40
explain data/{topic}-0/00000000000000000000.log --position 0 --max-fields 40 --json
explain data/meta.properties
offsets data
offsets data --json
groups data
groups data --json
transactions data
transactions data --json
metadata data
metadata data --json
zk zookeeper
zk zookeeper --json
elections data
elections data --json
elections zookeeper
compare data
compare data --json
quorum show data
quorum show data --json
triage data
triage data --json
quorum recover --standalone data --dry-run --at 2026-11-22T00:00:00Z
quorum recover --standalone data --dry-run --at 2026-11-22T00:00:00Z --json
quorum recover data --dry-run --endpoint 7=moved:9093 --at 2026-11-22T00:00:00Z
index verify data
index verify data --json
schemas data
schemas data --json
serve data --topic nosuch
serve data --topic nosuch --json
replay data --bootstrap-server 127.0.0.1:1 --at 2026-11-22T00:00:00Z
replay data --bootstrap-server 127.0.0.1:1 --at 2026-11-22T00:00:00Z --json
staging data
staging data --json
remote data
remote data --json
report data -o - --format md --at 2026-11-22T00:00:00Z
completion fish
build lines.jsonl --into built
build lines.jsonl --into built-json --json
export data --format parquet --to tables --values bytes --topic {topic}
export data --format parquet --to tables-json --values bytes --topic {topic} --json
merge data/{topic}-0 built/made-0 --into merged
merge data/{topic}-0 built/made-0 --into merged-json --json
compact data --yes
undelete data
undelete data --json
recover data --yes
recover data --yes --mode salvage --into rescued
runs rescued
runs rescued --json
undo rescued --yes
recover data --yes --mode salvage --into second --json
undo second --yes --json
compact data --yes --json
verify nowhere
ls data --topic nosuch
"""

_RUN = re.compile(r"\b20[0-9]{6}T[0-9]{6}\.[0-9]{6}Z-[0-9a-f]{8}\b")
_NOW = re.compile(
    r"(?<=; )20[-0-9]+ [:0-9]+(?= UTC, kafkalog)|(?<=00000000  )20[-0-9]+ [:0-9]+(?=  )"
    r"|20[-0-9]+ [:0-9]+(?=Z  [^ ]+-delete)"
)

_OF_TODAY = re.compile(r'("(?:began|machine|owner|ageMs|allocated_bytes|deleted_ms|modified_ms)": )("[^"]*"|[0-9]+)')
"""in JSON"""


def _blanked(text: str, place: Path) -> str:
    """Without what differs from run to run; what recorded files say about their own time stays."""
    text = text.replace(str(place), "/place")
    text = re.sub(r"kafkalog-replay-[0-9a-f]{12}", "kafkalog-replay-" + "0" * 12, text)
    text = re.sub(r"(?<= )[0-9]{4} d(?= )", "0000 d", text)  # ages of open transactions, which are until now
    text = _OF_TODAY.sub(lambda match: match[1] + re.sub("[0-9a-f]", "0", match[2]), text)
    text = _RUN.sub(lambda match: re.sub("[0-9a-f]", "0", match.group()), text)
    return _NOW.sub(lambda match: re.sub("[0-9]", "0", match.group()), text)


def _scene(case: str, place: Path) -> None:
    own_copy(brokers(case)[0], place / "data")
    if (unpacked(case) / "zookeeper").is_dir():
        own_copy(unpacked(case) / "zookeeper", place / "zookeeper")
    lines = [f'{{"topic": "made", "partition": 0, "offset": {number}, "timestamp": {number}, "key": "k{number}", '
             f'"value": "v"}}\n' for number in range(3)]  # fmt: skip
    (place / "lines.jsonl").write_text("".join(lines))


def made(name: str) -> Iterator[tuple[str, str]]:
    """File name and text for each command of a fixture."""
    case, topic = FIXTURES[name]
    texts: dict[str, list[str]] = {}
    for width in WIDTHS:
        with tempfile.TemporaryDirectory(dir="/tmp") as temporary, chdir(temporary):  # lines wrap by its length
            place = Path(temporary).resolve()
            _scene(case, place)
            topics = sorted(path.name.removesuffix("-0") for path in (place / "data").glob("[a-z]*-0"))
            chosen = topics[0] if topic == "*" else topic
            for line in LINES.strip().splitlines():
                if line.endswith(" --json") and width != WIDTHS[0]:
                    continue  # is as long as it is
                words = shlex.split(line.format(topic=chosen))
                finished = kafkalog(*words, columns=width)
                text = f"$ kafkalog {line.format(topic=chosen)}  # {width} columns, exit code {finished.code}\n"
                text += finished.out + "".join(f"! {each}\n" for each in finished.err.splitlines())
                texts.setdefault(words[0], []).append(_blanked(text, place))
    for command, parts in texts.items():
        yield f"{command}.txt", "\n".join(parts)


if __name__ == "__main__" and "--write" in sys.argv:
    assert {line.split()[0] for line in LINES.strip().splitlines()} == COMMANDS.keys()
    shutil.rmtree(GOLDEN, ignore_errors=True)
    os.environ.pop("COLUMNS", None)
    for fixture in FIXTURES:
        (GOLDEN / fixture).mkdir(parents=True)
        for file_name, held in made(fixture):
            (GOLDEN / fixture / file_name).write_text(held)
