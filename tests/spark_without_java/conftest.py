"""What one test registers for an object store, the next one, in whatever order, doesn't see."""

from __future__ import annotations

import pytest

from kafkalog.log.disk import remote_file


@pytest.fixture(autouse=True)
def nothing_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_file, "_MOUNTED", {})
