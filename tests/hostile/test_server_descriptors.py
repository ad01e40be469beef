"""A server that may open few files serves all of its logs to all clients that it admits."""

from __future__ import annotations

import os
import shutil
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkalog import Log, LogConfig
from kafkalog.server.catalog import Catalog
from testkit.serving.raw_client import RawClient, fetching
from testkit.serving.the_server import listening

LIMIT = 256
PARTITIONS = 200
RECORDS = 20


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More partitions than files may be open, with a record in a segment of its own."""
    root = tmp_path_factory.mktemp("many")
    with Log.open(root / "many-0", LogConfig(retention_ms=-1)) as log:
        log.append([b"%d" % number for number in range(RECORDS)])
    for number in range(1, PARTITIONS):
        shutil.copytree(root / "many-0", root / f"many-{number}")
    return root


def test_all_records_are_readable_whatever_the_limit(many: Path) -> None:
    with listening(many, "--max-connections", "1000", descriptors=LIMIT) as (bootstrap, process), ExitStack() as others:
        host, _, port = bootstrap.rpartition(":")
        address = host, int(port)
        for _ in range(LIMIT):  # and nobody who comes later is kept out
            others.enter_context(socket.create_connection(address, 20, source_address=("127.0.0.2", 0)))
        with RawClient(address) as client:
            for level in (0, 1):
                wanted, found = dict.fromkeys(range(PARTITIONS), 0), 0
                until = time.monotonic() + 60
                while wanted:
                    assert time.monotonic() < until, f"of {len(wanted)} partitions nothing came"
                    body = fetching("many", wanted, isolation_level=level, max_wait_ms=50)
                    (topic,) = client.ask("Fetch", 11, **body)["responses"]
                    for each in topic["partitions"]:
                        assert each["error_code"] == 0, each
                        if each["records"]:
                            del wanted[each["partition_index"]]
                            found += int.from_bytes(each["records"][57:61], "big")
                assert found == PARTITIONS * RECORDS
            (topic,) = client.ask("Metadata", 12, topics=[{"name": "many"}])["topics"]
            assert {each["error_code"] for each in topic["partitions"]} == {0}
        process.terminate()
        _, told = process.communicate(timeout=30)
    assert f"at most 108 clients at a time, not 1000: no more than {LIMIT} files may be open (ulimit -n)" in told
    assert "could not be listed" not in told


def test_a_listing_that_failed_replaces_no_good_one(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    catalog = Catalog([many], complain=told.append)
    before = set(catalog.topics["many"].partitions)
    scandir = os.scandir

    def failing(path: str) -> object:
        if str(path).endswith("many-7"):
            raise OSError(24, "Too many open files", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: list(failing(path)) and listdir(path))  # type: ignore[call-overload]
    catalog.refresh()
    catalog.refresh()
    assert set(catalog.topics["many"].partitions) == before
    assert len(told) == 1
    assert "1 partition(s) could not be listed again, and are served as they were" in told[0]
