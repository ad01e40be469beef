"""A small log directory, and every kind of file that may be in one besides logs that are sound."""

from __future__ import annotations

from pathlib import Path

import kafkalog

__all__ = ["PLACES", "RUN", "small_log_dir"]

T0 = 1_700_000_000_000
BASE = f"t-0/{0:020d}"
PLACES = {
    "recovery points": "recovery-point-offset-checkpoint",
    "log starts": "log-start-offset-checkpoint",
    "high watermarks": "replication-offset-checkpoint",
    "cleaner offsets": "cleaner-offset-checkpoint",
    "meta.properties": "meta.properties",
    "clean shutdown": ".kafka_cleanshutdown",
    "junk beside partitions": "junk",
    "temporary file beside": "recovery-point-offset-checkpoint.tmp",
    "offset index": f"{BASE}.index",
    "time index": f"{BASE}.timeindex",
    "transaction index": f"{BASE}.txnindex",
    "index of no log": f"t-0/{77:020d}.index",
    "producer snapshot": f"t-0/{3:020d}.snapshot",
    "leader epochs": "t-0/leader-epoch-checkpoint",
    "partition metadata": "t-0/partition.metadata",
    "quorum state": "t-0/quorum-state",
    "junk in a partition": "t-0/junk",
    "log": f"t-0/{40:020d}.log",
    "log to be deleted": f"t-0/{40:020d}.log.deleted",
    "log of a replacement": f"t-0/{40:020d}.log.swap",
    "cleaned log": f"t-0/{40:020d}.log.cleaned",
}
"""kind -> where it is"""

RUN = """
import json, sys
from pathlib import Path
import kafkalog
from kafkalog.cli.main import run
from kafkalog.spark.contents_reader import ContentsReader
from kafkalog.spark.contents_schema import SCHEMAS, chosen
from kafkalog.spark.options import parse_options

what, root = sys.argv[1:]
outcome = ""
try:
    if what in ("ls", "dump", "verify"):
        code = run([what, "--json", root])
        outcome = f"exit {code}"
    elif what == "plan":
        outcome = str(kafkalog.plan(root)[0].refusal)
    elif what == "contents":
        for contents in ("segments", "findings", "checkpoints", "offset_index", "producer_state", "leader_epochs"):
            given = {"paths": json.dumps([root]), "contents": contents, "mode": "PERMISSIVE"}
            reader = ContentsReader(parse_options(given), chosen(SCHEMAS[contents], contents))
            for partition in reader.partitions():
                for batch in reader.read(partition):
                    pass
    else:
        (result,) = kafkalog.recover(kafkalog.Recovery(mode=what), root)
        outcome = f"{result.run_id}, left: {list(result.declined.values())}"
except kafkalog.KafkaLogError as error:
    outcome = f"{type(error).__name__}: {error}"
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
sys.stderr.write("\\n" + json.dumps({"kib": peak, "outcome": outcome}) + "\\n")
"""
"""A program: does one thing with a log directory, and prints its outcome and the peak of its memory on stderr."""


def small_log_dir(root: Path) -> None:
    """One partition with three records, as a broker leaves it that was killed."""
    config = kafkalog.LogConfig()
    root.mkdir(parents=True, exist_ok=True)
    with kafkalog.Log.open(root / "t-0", config, clock=lambda: T0) as log:
        for number in range(3):
            log.append([kafkalog.NewRecord(b"%d" % number, timestamp=T0 + number)])
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (root / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
