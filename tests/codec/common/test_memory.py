"""Large memory: what grows, what is used again, and what the system has back."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from kafkalog.codec.common import buffer_pool
from kafkalog.codec.common.buffer_pool import Block, give_back_free_memory
from kafkalog.codec.common.errors import LimitExceeded
from kafkalog.codec.common.limits import KIB, MIB, Limits
from kafkalog.codec.common.memory import GrowingMemory
from kafkalog.codec.compression import gzip


def test_what_grows_keeps_what_it_holds() -> None:
    memory = GrowingMemory(1)
    parts = [bytes([number % 251]) * number for number in range(0, 3000, 7)]
    for part in parts:
        memory.append(part)
    assert memory.view() == b"".join(parts)
    assert memory.view().readonly


def test_a_block_is_used_again_once_nobody_holds_it() -> None:
    give_back_free_memory()
    block = Block(MIB)
    address = block.address
    view = block.view(np.uint8, 10)
    del block
    assert Block(MIB).address != address, "a view holds it"
    del view
    assert address in {each.address for each in (Block(MIB), Block(MIB))}


def test_what_is_kept_is_bounded_and_can_be_given_back() -> None:
    blocks = [Block(8 * MIB) for _ in range(20)]
    del blocks
    gc.collect()
    kept = sum(each.size for each in buffer_pool._pool._free)
    assert 0 < kept <= buffer_pool.FREE_BYTES
    give_back_free_memory()
    assert not buffer_pool._pool._free


def test_no_two_threads_have_the_same_memory() -> None:
    wrong: list[int] = []

    def work(mark: int) -> None:
        for number in range(300):
            block = Block(64 * KIB * (1 + number % 5))
            held = block.view(np.uint8, block.size)
            held[:] = mark
            if not (held == mark).all():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.parametrize("room", [0, 100, 64 * KIB, 300_000, MIB])
def test_gzip_uses_the_room_that_it_is_given_or_its_own(room: int) -> None:
    content = bytes(range(256)) * 1200
    stream = gzip.compress(content)
    target = memoryview(bytearray(room))
    found = gzip.decompress(stream, Limits(), target)
    assert found == content
    assert (target[: len(content)] == content) == (room >= len(content))
    with pytest.raises(LimitExceeded):
        gzip.decompress(stream, Limits(decompressed_batch_bytes=len(content) - 1), target)


def test_memory_goes_to_the_thread_that_had_it_and_to_whom_it_fits_best() -> None:
    give_back_free_memory()
    blocks = [Block(size * MIB) for size in (5, 4, 7)]
    of_others: list[Block] = []
    thread = threading.Thread(target=lambda: of_others.append(Block(4 * MIB)))
    thread.start()
    thread.join()
    addresses = {block.size: block.address for block in blocks}
    theirs = of_others[0].address
    blocks.clear()
    of_others.clear()
    mine = Block(4 * MIB)
    assert mine.address == addresses[4 * MIB] != theirs
    larger = Block(4 * MIB)
    assert larger.address == addresses[5 * MIB]
    largest = Block(4 * MIB)
    assert largest.address == addresses[7 * MIB]
    assert Block(4 * MIB).address == theirs
    del mine, larger, largest
    give_back_free_memory()
