"""A certificate for 127.0.0.1 that vouches for itself, and its key, by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed(place: Path) -> tuple[Path, Path]:
    """Both files, in PEM."""
    if shutil.which("openssl") is None:
        pytest.fail("openssl makes the certificate of this test, and is not on the path")
    paths = place / "certificate.pem", place / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
               "-addext", "subjectAltName=IP:127.0.0.1", "-out", str(paths[0]), "-keyout", str(paths[1])]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return paths
