"""Where there is too little memory, a command says so in one sentence and ends with exit code 4."""

from __future__ import annotations

import pytest

from kafkalog.cli import main


@pytest.mark.parametrize("said", ["", "the system cannot allocate 4096 bytes of memory"])
def test_memory_that_is_not_there_is_no_mistake_of_the_program(
    said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacking(*_: object, **__: object) -> None:
        raise MemoryError(*[said] * bool(said))

    monkeypatch.setattr(main.cli, "main", lacking)
    monkeypatch.delenv("COLUMNS", raising=False)  # nothing limits the width of a line
    assert main.run(["verify", "data"]) == 4
    told = capsys.readouterr().err
    assert told.startswith("kafkalog: there is not enough memory")
    assert said in told
    assert "ulimit -v" in told
    assert told.count("\n") == 1
