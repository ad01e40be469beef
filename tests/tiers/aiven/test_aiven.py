"""Aiven's layout: what the plugin wrote is read, damage and what does not fit are one sentence, nothing is trusted."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

import kafkalog
from kafkalog.codec.common.errors import FormatError
from kafkalog.log.disk import remote_file as mounts
from kafkalog.tiers.aiven.chunk_index import read_chunk_index
from kafkalog.tiers.aiven.layout import AivenTier
from kafkalog.tiers.aiven.manifest import read_manifest
from kafkalog.tiers.layouts import open_tier
from kafkalog.tiers.reading import mounted
from testkit.recorded.fixture_data import TIERED, tiered_case
from testkit.running.command import kafkalog as command
from testkit.serving.tiny_s3 import BUCKET, serving

CASE = tiered_case("aiven")
KINDS = ("as-plain", "as-zstd-1", "as-aes", "as-both")
Json = dict[str, Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return CASE.unpack(tmp_path)


def partitions(root: Path, *, keys: dict[str, str] | None = None) -> dict[str, kafkalog.Partition]:
    """Of the bucket alone."""
    tier = open_tier(str(root / "remote"), keys=CASE.key_files(root) if keys is None else keys)
    ((_, path),) = mounted([], tier)
    return {f"{each.topic}-{each.partition}": each for each in kafkalog.open(path).partitions}


def objects(root: Path, topic: str, suffix: str) -> list[Path]:
    return [path.with_suffix(suffix) for path in CASE.logs(root, f"{topic}-0")]


@pytest.mark.parametrize("line", (TIERED / "aiven" / "chunk-indexes.jsonl").read_text().splitlines())
def test_chunks_lie_where_the_plugin_finds_them(line: str) -> None:
    row = json.loads(line)
    found = read_chunk_index(row["index"])
    assert found.count == len(row["chunks"])
    assert [
        [number * found.chunk_size, found.bytes_of(number), found.position(number),
         found.position(number + 1) - found.position(number)]
        for number in range(found.count)
    ] == row["chunks"]  # fmt: skip
    assert found.packed == sum(each[3] for each in row["chunks"])
    assert found.largest == max(each[3] for each in row["chunks"])


def test_the_recording_has_every_kind(root: Path) -> None:
    kinds = {}
    for topic in KINDS:
        manifest = read_manifest(objects(root, topic, ".rsm-manifest")[0].read_bytes())
        kinds[topic] = manifest.is_compressed, None if manifest.key is None else manifest.key.pair
        assert manifest.chunks.count > 1
    assert list(kinds.values()) == [(False, None), (True, None), (False, "first"), (True, "second")]
    assert any(read_manifest(path.read_bytes()).indexes.get("transaction", (0, 0))[1]
               for path in objects(root, "payments", ".rsm-manifest"))  # fmt: skip


@pytest.mark.parametrize("topic", KINDS)
def test_a_record_costs_its_chunk(topic: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log with three chunks at most two are read for the record in the middle."""
    read: list[int] = []
    tier = AivenTier(str(root / "remote"), CASE.key_files(root))
    listed = next(each for each in tier.segments() if each.topic == topic)
    log = listed.objects[kafkalog.FileKind.LOG]
    file = tier.open(log)
    inner = file._file.read  # type: ignore[attr-defined]

    def counted(at: int, size: int) -> bytes:
        read.append(size)
        return bytes(inner(at, size))

    monkeypatch.setattr(file._file, "read", counted)  # type: ignore[attr-defined]
    assert len(file.read(1600, 100)) == 100
    assert read in ([100], [read[0]])
    assert sum(read) < log.size / 2
    assert file.read(1700, 50) == file.read(0, file.size)[1700:1750]


def test_objects_are_read_by_ranges_from_a_store(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOUNTED", {})
    with serving(root) as store:
        storage = {name.removeprefix("storage."): value for name, value in store.options().items()}
        tier = open_tier(f"s3://{BUCKET}/remote", storage=storage, keys=CASE.key_files(root))
        assert tier.layout == "aiven"
        ((_, path),) = mounted([str(root / "broker")], tier)
        partition = kafkalog.open(path)["orders", 0]
        store.requests.clear()
        assert next(iter(partition.records(kafkalog.RecordFilter(start_offset=100)))).offset == 100
        asked = [each for each in store.requests if each.startswith("GET")]
        assert 0 < len(asked) <= 5
        assert all("bytes=" in each for each in asked)


def test_every_command(root: Path) -> None:
    remote, broker = CASE.options(root), root / "broker"
    wanted = [row["offset"] for row in CASE.expected("read_committed")["payments-0"]]
    dumped = command("dump", "--json", "-t", "payments", "--isolation-level", "read_committed", broker, *remote)
    assert [line["offset"] for line in dumped.objects] == wanted
    assert command("remote", broker, *remote).code == 0
    assert command("remote", *remote).code == 0
    assert command("verify", broker, *remote).code == 0
    assert command("verify", *remote).code == 0
    found = command("find", "--json", "-t", "orders", "--time", "earliest", "--offset", "100", broker, *remote)
    assert {line.get("offset") for line in found.objects} >= {0}
    made = command("remote", "rebuild-metadata", broker, *remote, "--into", root / "events")
    assert made.code == 0, made.err


def test_a_prefix_may_end_within_a_name(root: Path) -> None:
    for path in (root / "remote").iterdir():
        path.rename(path.with_name(f"east-{path.name}"))
    assert set(partitions(root)) == {each for each in CASE.bounds if each != "plain-0"}
    names = [line["topic"] for line in command("remote", "--json", *CASE.options(root)).objects if "topic" in line]
    assert set(names) >= {*KINDS, "orders"}
    assert not any(each.startswith("east") for each in names)


def test_the_layout_is_told_from_the_other_one(root: Path, tmp_path: Path) -> None:
    """Of a topic that is named like a partition too, and beside a file that is named like a topic."""
    assert open_tier(str(root / "remote")).layout == "aiven"
    topic = next(path.name for path in (root / "remote").iterdir() if path.is_dir())
    (root / "remote" / f"a-file-{topic[-22:]}").write_text("")
    for path in (root / "remote").iterdir():
        if path.is_dir() and not path.name.startswith("as-zstd-1-"):
            shutil.rmtree(path)
    assert open_tier(str(root / "remote")).layout == "aiven"
    tiered_case("pair").unpack(tmp_path / "other")
    assert open_tier(str(tmp_path / "other" / "remote")).layout == "local-tiered-storage"
    inside = tmp_path / "other" / "remote" / "kafka-tiered-storage"
    assert open_tier(str(inside)).layout == "local-tiered-storage"


def refused(root: Path, *keys: str, topic: str = "as-aes") -> tuple[int, str]:
    words = [word for each in keys for word in ("--private-key", each)]
    done = command("dump", "-t", topic, "--remote", root / "remote", *words)
    assert len(done.err.strip().splitlines()) == 1, done.err
    return done.code, done.err


def test_keys_that_are_missing_or_wrong(root: Path) -> None:
    keys = CASE.key_files(root)
    (root / "no-key").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    for given, code, said in (
        ([], 4, "the segment is encrypted for the pair of keys 'first', whose private key was not given"),
        ([f"second={keys['second']}"], 4, "whose private key was not given; one was given of second"),
        ([keys["second"]], 4, "does not open the key of the segment, which is encrypted for the pair 'first'"),
        ([f"first={root / 'none'}"], 4, "none"),
        ([f"first={root / 'no-key'}"], 64, "no-key is not a private RSA key as PEM without a password"),
        ([f"first={root / 'keys' / 'first.public.pem'}"], 64, "is not a private RSA key"),
    ):  # fmt: skip
        assert refused(root, *given)[0] == code
        assert said in refused(root, *given)[1]
    tier = "--remote", root / "remote"
    assert command("dump", "-t", "as-aes", *tier, "--private-key", keys["first"]).code == 0
    assert command("dump", "-t", "as-plain", *tier).code == 0
    listed = command("remote", root / "broker", "--remote", root / "remote")
    assert listed.code == 0
    alone = command("dump", root / "broker", "--private-key", keys["first"])
    assert (alone.code, "--private-key is about --remote" in alone.err) == (64, True)
    tiered_case("pair").unpack(root / "other")
    other = command("dump", root / "other" / "broker-1", "--remote", root / "other" / "remote",
                    "--private-key", keys["first"])  # fmt: skip
    assert (other.code, "encrypts nothing" in other.err) == (64, True)


def test_without_the_library_the_extra_is_named(root: Path) -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import kafkalog\n"
        f"kafkalog.open_tier({str(root / 'remote')!r}, keys={CASE.key_files(root)!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "an encrypted remote tier needs the package cryptography: install kafkalog[tiered]" in done.stderr


def flipped(path: Path, position: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if position is None else position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("topic", KINDS)
def test_damage_in_a_chunk_is_said(topic: str, root: Path) -> None:
    """In a plain log it is a finding as in a local one; a chunk that cannot be opened ends the reading."""
    flipped(objects(root, topic, ".log")[0])
    partition = partitions(root)[f"{topic}-0"]
    rows: list[int] = []
    said = ""
    try:
        reader = partition.records(on_damage="stop")
        rows += [each.offset for each in reader]
        said = "".join(str(each) for each in reader.findings)
    except kafkalog.StorageError as error:
        said = str(error)
    assert rows == list(range(len(rows)))
    assert len(rows) < 47 + 43
    assert said
    if topic in ("as-aes", "as-both"):
        assert "does not decrypt: it is damaged, or of another segment" in said
    checked = command("verify", root / "broker", *CASE.options(root))
    assert checked.code == (4 if topic in ("as-aes", "as-both") else 1)
    assert objects(root, topic, ".log")[0].name in checked.err


def changed(change: Callable[[Json], Any]) -> Callable[[bytes], bytes]:
    def apply(data: bytes) -> bytes:
        fields = json.loads(data)
        change(fields)
        return json.dumps(fields).encode()

    return apply


def sizes(*data: bytes) -> str:
    return base64.b64encode(zstandard.ZstdCompressor().compress(b"".join(data))).decode()


def count(number: int) -> bytes:
    return number.to_bytes(4, "big")


MANIFESTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "it is not JSON"),
    "cut": (lambda data: data[:100], "it is not JSON"),
    "deep": (lambda _: b"[" * 100_000, "it is not JSON"),
    "a list": (lambda _: b"[1]", "it is not a JSON object"),
    "huge number": (lambda data: data.replace(b'"version":"1"', b'"version":' + b"9" * 5000), "it is not JSON"),
    "version": (changed(lambda found: found.update(version="2")), "version '2', and 1 is the one that is known"),
    "type": (changed(lambda found: found["chunkIndex"].update(type="tree")), "a chunk index of type 'tree'"),
    "no chunks": (changed(lambda found: found.pop("chunkIndex")), "chunkIndex is missing"),
    "chunk size 0": (changed(lambda found: found["chunkIndex"].update(originalChunkSize=0)), "chunks of 0 bytes"),
    "negative": (changed(lambda found: found["chunkIndex"].update(originalFileSize=-5)), "originalFileSize is -5"),
    "a float": (changed(lambda found: found["chunkIndex"].update(originalFileSize=5.0)), "originalFileSize is not"),
    "not base64": (changed(lambda found: found["chunkIndex"].update(transformedChunks="%%%")), "are not base64"),
    "not zstd": (changed(lambda found: found["chunkIndex"].update(transformedChunks="AAAA")), "zstd"),
    "a bomb": (
        changed(lambda found: found["chunkIndex"].update(transformedChunks=sizes(bytes(64 << 20)))),
        "zstd",
    ),
    "count": (
        changed(lambda found: found["chunkIndex"].update(transformedChunks=sizes(count(1 << 31), bytes(9)))),
        "the sizes of 2147483648 chunks in 13 bytes",
    ),
    "too few": (
        changed(lambda found: found["chunkIndex"].update(transformedChunks=sizes(count(1), count(9)))),
        "1 chunks, and a log of",
    ),
    "no colon": (changed(lambda found: found["encryption"].update(dataKey="AAAA")), "its data key is not an id"),
    "an epoch": (
        changed(lambda found: found["remoteLogSegmentMetadata"].update(segmentLeaderEpochs={"x": 1})),
        "segmentLeaderEpochs is not what it should be",
    ),
    "offsets": (
        changed(lambda found: found["remoteLogSegmentMetadata"].update(startOffset=9, endOffset=3)),
        "its offsets are 9 to 3",
    ),
    "another base": (changed(lambda found: found["remoteLogSegmentMetadata"].update(startOffset=1)), "of segment"),
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_not_trusted(name: str, root: Path) -> None:
    change, said = MANIFESTS[name]
    path = objects(root, "as-both", ".rsm-manifest")[0]
    path.write_bytes(change(path.read_bytes()))
    done = command("dump", "-t", "as-both", *CASE.options(root))
    assert done.code == 4
    (sentence,) = done.err.strip().splitlines()
    assert str(path) in sentence
    assert "this manifest cannot be read" in sentence
    assert said in sentence
    assert command("remote", root / "broker", *CASE.options(root)).code == 1


def test_sizes_that_do_not_hold_together(root: Path) -> None:
    """A chunk that has more than is read, an index that is outside, an object that is shorter."""
    manifest = objects(root, "as-both", ".rsm-manifest")[0]
    before = manifest.read_bytes()
    packed = manifest.with_suffix(".log").stat().st_size
    whole = {"type": "fixed", "originalChunkSize": (1 << 31) - 1, "originalFileSize": (1 << 31) - 1,
             "transformedChunkSize": 0, "finalTransformedChunkSize": packed}  # fmt: skip
    for change, said in (
        (lambda found: found.update(chunkIndex=whole), "are more than is read"),
        (lambda found: found["segmentIndexes"]["offset"].update(position=1 << 30), "and the manifest says 1073741"),
    ):  # fmt: skip
        manifest.write_bytes(changed(change)(before))
        with pytest.raises(kafkalog.StorageError, match=said):
            list(partitions(root)["as-both-0"].records(kafkalog.RecordFilter(start_offset=20)))
        done = command("find", "-t", "as-both", "--offset", "20", *CASE.options(root))
        assert done.code == 4
    manifest.write_bytes(before)
    log = manifest.with_suffix(".log")
    log.write_bytes(log.read_bytes()[:-1])
    found = command("remote", root / "broker", *CASE.options(root))
    assert found.code == 1
    assert "and the manifest says" in found.err
    assert "remote_object_damaged" in found.err


def test_a_manifest_that_is_missing(root: Path) -> None:
    gone = objects(root, "orders", ".rsm-manifest")[1]
    gone.unlink()
    found = command("remote", root / "broker", *CASE.options(root))
    assert found.code == 1
    assert "lacks .rsm-manifest: offsets 47 to 89 are lost" in found.err
    done = command("dump", "-t", "orders", root / "broker", *CASE.options(root))
    assert done.code == 4
    assert ".rsm-manifest" in done.err
    alone = command("dump", "-t", "orders", *CASE.options(root))
    assert alone.code == 4
    made = command("remote", "rebuild-metadata", root / "broker", *CASE.options(root), "--into", root / "events")
    assert made.code == 1
    assert "lacks .rsm-manifest: it gets no events" in made.err


def test_objects_of_another_segment(root: Path) -> None:
    """A log with its indexes, of another topic written alike, beside the manifest of this one."""
    one, other = objects(root, "as-plain", ".log")[0], objects(root, "both", ".log")[0]
    for suffix in (".log", ".indexes"):
        shutil.copy(other.with_suffix(suffix), one.with_suffix(suffix))
    with pytest.raises(kafkalog.StorageError, match=r"and the manifest says|another segment"):
        list(partitions(root)["as-plain-0"].records())
    one, other = objects(root, "as-aes", ".log")[0], objects(root, "as-plain", ".log")[1]
    shutil.copy(other.with_suffix(".rsm-manifest"), one.with_suffix(".rsm-manifest"))
    with pytest.raises(kafkalog.StorageError, match="it is of segment"):
        list(partitions(root)["as-aes-0"].records())


def test_broken_keys_are_format_errors() -> None:
    with pytest.raises(FormatError, match="not an id, a colon, and base64"):
        read_manifest(b'{"version":"1","chunkIndex":{"type":"fixed","originalChunkSize":1,"originalFileSize":1,'
                      b'"transformedChunkSize":1,"finalTransformedChunkSize":1},"segmentIndexes":{'
                      b'"offset":{"position":0,"size":0},"timestamp":{"position":0,"size":0},'
                      b'"producerSnapshot":{"position":0,"size":0},"leaderEpoch":{"position":0,"size":0}},'
                      b'"compression":false,"encryption":{"dataKey":"a:***","aad":""}}')  # fmt: skip
