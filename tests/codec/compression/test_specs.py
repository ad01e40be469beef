"""The table of compressions: every entry is documented, is in a recorded log, and is used by what depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kafkalog.codec import scan
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.compression import compress, decompress, decompress_before_damage
from kafkalog.codec.compression.specs import (
    KAFKA_SPECS,
    KNOWN_CODECS,
    LEVEL_SETTINGS,
    SPECS,
    Codec,
    CodecSpec,
    codec_spec,
)
from testkit.recorded.broker_dirs import brokers

ROOT = Path(__file__).resolve().parents[3]
CONTENT = b"an offset, and another one " * 400


def test_the_table_has_every_number_once() -> None:
    assert list(SPECS) == list(Codec) == list(range(len(Codec)))
    assert KNOWN_CODECS == {0: 0b1111, 1: 0b1111, 2: 0b11111}
    assert codec_spec(len(Codec)) is None
    assert codec_spec(-1) is None


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_what_a_compression_can_do(codec: Codec) -> None:
    spec = SPECS[codec]
    for magic in (0, 1, 2):
        if not spec.is_defined(magic):
            for call in (compress, decompress):
                with pytest.raises(FormatError, match=f"not defined for magic {magic}"):
                    call(codec, CONTENT, magic=magic)
            continue
        stream = compress(codec, CONTENT, magic=magic)
        assert bytes(decompress(codec, stream, magic=magic)) == CONTENT
        most = spec.stream().most_bytes(stream)
        assert most is None or most >= len(CONTENT)
    assert decompress_before_damage(codec, stream, DEFAULT_LIMITS) == CONTENT
    for level in () if spec.levels is None else spec.levels:
        assert bytes(decompress(codec, compress(codec, CONTENT, level=level))) == CONTENT


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_a_compression_is_documented(codec: Codec) -> None:
    page = (ROOT / "docs" / "format" / "compressed-records.md").read_text(encoding="utf-8")
    assert f"| {int(codec)} | `{codec.label}` |" in page


def test_a_broker_has_written_every_compression() -> None:
    logs = (path for broker in brokers("2.8.2/codecs") for path in broker.rglob("*.log"))
    seen = {batch.header.codec for path in logs for batch in scan(path.read_bytes()).batches}
    assert seen == set(KAFKA_SPECS)


def test_the_levels_have_kafkas_settings() -> None:
    of_topic_config = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
    assert of_topic_config == LEVEL_SETTINGS


@pytest.mark.parametrize(("command", "codecs"), [("build", SPECS), ("replay", KAFKA_SPECS)])
def test_a_command_offers_every_compression(command: str, codecs: Mapping[Codec, CodecSpec]) -> None:
    page = (ROOT / "docs" / "man" / f"kafkalog-{command}.1").read_text(encoding="utf-8")
    assert f"[{'|'.join(codecs[codec].codec.label for codec in sorted(codecs))}]" in page.replace("\\", "")
