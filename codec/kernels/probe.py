"""A kernel with every kind of argument: what `kernels.native` is tried on before machine code is kept."""

from __future__ import annotations

from typing import Any

from kafkalog.codec.kernels.jit import compiled

__all__ = ["SIGNATURE", "probe", "questions", "seen"]

SIGNATURE = "UniTuple(int64, 3)(int64, boolean, boolean, int64[::1], int64[:], int64[:,:], int64[:,::1], uint8[::1])"


@compiled(SIGNATURE)
def probe(
    number: int, yes: bool, no: bool, line: Any, slanted: Any, table: Any, whole: Any, some: Any
) -> tuple[int, int, int]:
    """Something of every argument; writes into `line` and `table`."""
    total = number
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            total = total * 31 + table[row, column]
    for row in range(whole.shape[0]):
        for column in range(whole.shape[1]):
            total = total * 31 + whole[row, column]
    for each in range(slanted.shape[0]):
        total = total * 31 + slanted[each]
    for each in range(some.shape[0]):
        total = total * 31 + some[each]
    line[line.shape[0] - 1] = total if yes else -1
    table[0, 0] = -2 if no else total + 1
    return line.shape[0], total & 0xFFFF, some.shape[0]


def questions() -> list[Any]:
    """Arguments."""
    import numpy as np

    numbers = np.arange(60, dtype=np.int64)
    return [
        -7, True, False, numbers[:5].copy(), numbers[3:50:4].copy()[::2], numbers.copy().reshape(6, 10)[1:4, 2:9:3],
        (numbers * 3).reshape(12, 5), np.arange(250, 255, dtype=np.uint8),
    ]  # fmt: skip


def seen(result: Any, given: list[Any]) -> Any:
    """What is compared: results and what was written."""
    return tuple(result), given[3].tolist(), given[5].tolist()
