"""UUIDs as text: what `java.util.Base64.getUrlDecoder()` of Java 17 answered for each."""

from __future__ import annotations

import pytest

from kafkalog.codec.layout.text_values import url_base64_bytes, uuid_text

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
