"""Select batches by their headers. Other batches are neither decompressed nor decoded, but their checksums are
verified, and offsets and transactions are tracked as if they were read.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from kafkalog.codec.common.arguments import shown
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.model import CONTROL_FLAG, NO_PRODUCER_ID, TRANSACTIONAL_FLAG, AnyHeader, Codec
from kafkalog.codec.rules.codec_names import as_codec

if TYPE_CHECKING:
    from kafkalog.codec.headers.message_runs import MessageRun
    from kafkalog.codec.headers.one_batch import AnyRun
    from kafkalog.codec.headers.runs import BatchRun

__all__ = ["BatchFilter", "Codecs", "ProducerIds", "batch_filter"]

ProducerIds: TypeAlias = int | Iterable[int] | None
Codecs: TypeAlias = Codec | str | int | Iterable[Codec | str | int] | None


class BatchFilter(Struct, frozen=True, kw_only=True):
    """Conditions on a batch header, all of which must hold; a condition of None always holds. Entries of magic 0 and 1
    have no producer and are neither transactional nor control batches; their codec is the codec of the wrapper.
    """

    producer_ids: frozenset[int] | None = None
    codecs: frozenset[int] | None = None
    transactional: bool | None = None
    control: bool | None = None

    def accepts(self, header: AnyHeader) -> bool:
        """Whether a batch with this header fulfills all conditions of the filter."""
        return (
            (self.producer_ids is None or header.producer_id in self.producer_ids)
            and (self.codecs is None or header.codec in self.codecs)
            and (self.transactional is None or header.is_transactional == self.transactional)
            and (self.control is None or header.is_control == self.control)
        )

    def accepted(self, run: AnyRun) -> AnyRun | None:
        """Return the batches of a run that fulfill all conditions; None if none does."""
        columns = run.columns()
        if columns is None:
            return run if self.accepts(run.header(0)) else None
        numbers = self.numbers(columns)
        if len(numbers) == len(columns):
            return columns
        return columns.chosen(numbers) if numbers else None

    def numbers(self, run: BatchRun | MessageRun) -> list[int]:
        """Return the numbers of the batches of a run that fulfill all conditions of the filter, as `accepts` does, in
        ascending order.
        """
        from kafkalog.codec.native.cells import column_of
        from kafkalog.codec.native.functions import select_batches

        flags = values = 0
        for wanted, flag in ((self.transactional, TRANSACTIONAL_FLAG), (self.control, CONTROL_FLAG)):
            if wanted is not None:
                flags, values = flags | flag, values | flag * wanted
        if not run.has_producers:
            if values or self.producer_ids is not None:
                return []
            flags = 0
        codecs = -1 if self.codecs is None else sum(1 << codec for codec in self.codecs)
        ids = None if self.producer_ids is None else column_of(sorted(self.producer_ids))
        return select_batches(run.attributes, run.producer_ids, codecs, flags, values, ids)


def _producer_id(value: object) -> int:
    """Return an integer of any type as int. Raises `UsageError` if it is not an integer or outside the range of
    producer ids (0 to 2^63 - 1).
    """
    try:
        producer_id = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        producer_id = NO_PRODUCER_ID
    if not NO_PRODUCER_ID < producer_id < 2**63:
        raise UsageError(f"{shown(value)} is not a producer id: they are 0 to {2**63 - 1}")
    return producer_id


def batch_filter(
    producer_ids: ProducerIds = None,
    codecs: Codecs = None,
    transactional: bool | None = None,
    control: bool | None = None,
) -> BatchFilter | None:
    """Return the filter with these conditions; None if all are None. `producer_ids` and `codecs` may be one value or
    several; a batch fulfills the condition if it has one of them, so no batch fulfills an empty list. Codecs may be
    names or numbers. `transactional` and `control` are the wanted values of these flags. Raises `UsageError` for an
    invalid producer id or an unknown codec.
    """
    if producer_ids is None and codecs is None and transactional is None and control is None:
        return None
    ids = None
    if producer_ids is not None:
        ids = frozenset(map(_producer_id, producer_ids if isinstance(producer_ids, Iterable) else [producer_ids]))
    wanted = None
    if codecs is not None:
        wanted = frozenset(as_codec(codec) for codec in ([codecs] if isinstance(codecs, str | int) else codecs))
    return BatchFilter(producer_ids=ids, codecs=wanted, transactional=transactional, control=control)
