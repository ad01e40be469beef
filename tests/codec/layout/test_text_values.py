"""UUIDs as text: what `java.util.Base64.getUrlDecoder()` of Java 17 answered for each."""

from __future__ import annotations

import pytest

from kafkalog.codec.layout.text_values import url_base64_bytes, url_base64_problem, uuid_text

UUID = "BIzrMJ9vQ0mHqlDzTQ1XGQ"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (UUID, 16), (f"{UUID}==", 16), ("BIzrMJ9vQ0mHqlDzTQ1X-_", 16), ("BIzrMJ9vQ0mHqlDzTQ1XGR", 16), ("", 0),
        (f"{UUID}A", 17), (f"{UUID}A=", 17), ("BIzrMJ9vQ0mHqlDzTQ1=", 14),
    ],
)  # fmt: skip
def test_what_java_decodes(text: str, size: int) -> None:
    assert len(url_base64_bytes(text)) == size


@pytest.mark.parametrize(
    "text",
    [
        f"{UUID}=", f"{UUID}===", "BIzrMJ9vQ0mHqlDzTQ1X+Q", "BIzrMJ9vQ0mHqlDzTQ1X/Q", "BIzrMJ9vQ0mHqlDzTQ1X====",
        "BIzrMJ9vQ0mHqlDzTQ1XG", "BIzrMJ9vQ0mHqlDzTQ1XG===", "BIzr=J9vQ0mHqlDzTQ1XGQ", "====", f"{UUID}\n",
    ],
)  # fmt: skip
def test_what_java_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="not base64"):
        url_base64_bytes(text)


def test_a_uuid_is_written_without_padding() -> None:
    assert uuid_text(url_base64_bytes(f"{UUID}==")) == UUID


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{UUID}=", "Input byte array has wrong 4-byte ending unit"),
        (f"{UUID}===", "Input byte array has incorrect ending byte at 24"),
        ("BIzrMJ9vQ0mHqlDzTQ1X+Q", "Illegal base64 character 2b"),
        ("BIzrMJ9vQ0mHqlDzTQ1X====", "Input byte array has wrong 4-byte ending unit"),
        ("BIzrMJ9vQ0mHqlDzTQ1XG", "Last unit does not have enough valid bits"),
        ("BIzrMJ9vQ0mHqlDzTQ1XG===", "Last unit does not have enough valid bits"),
        (f"{UUID}\n", "Illegal base64 character a"),
        ("A", "Input byte[] should at least have 2 bytes for base64 bytes"),
        ("\u00e9BCD", "Illegal base64 character -17"),
        ("\u4e00BCD", "Illegal base64 character 3f"),
        ("ABC=D", "Input byte array has incorrect ending byte at 4"),
        ("", ""),
        (UUID, ""),
        (f"{UUID}==", ""),
        (f"{UUID}A=", ""),
    ],
)
def test_what_java_says(text: str, words: str) -> None:
    assert url_base64_problem(text) == words
