"""Write with Spark: tasks put batches beside the log directory, and the driver commits all of them or none.

Spark's commit coordinator decides which attempt of a task counts. Files of other attempts are never read.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.spark.commit import abandon, commit
from kafkalog.spark.leftovers import clear_leftovers
from kafkalog.spark.query_warnings import tell
from kafkalog.spark.staging import Staged, begin, discard_all, work_directory
from kafkalog.spark.write_task import Prepared, write_task

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before PySpark 4.1 a stream passes rows to a Python sink, and no Arrow batches
    _STREAMS = False

    class DataSourceStreamArrowWriter:  # type: ignore[no-redef]
        """An empty base class, since this version of PySpark has no such class."""
else:
    _STREAMS = True

__all__ = ["LogArrowWriter", "LogStreamArrowWriter"]

_QUERY = "sql.streaming.queryId"


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


@contextmanager
def _told_only() -> Iterator[None]:
    """Return a context that turns `StorageError` into a warning. It is for work after a commit, where an error would
    cause the rows to be written again.
    """
    try:
        yield
    except StorageError as error:
        tell(f"the rows are written, but what the tasks left is still there: {error}")


def _attempt() -> tuple[int, str, str | None]:
    """Return Spark's number of the task, a name for the attempt, and the id of the streaming query. Outside of a Spark
    task the number is 0 and the name is random. The id is None if there is no streaming query.
    """
    context = TaskContext.get()
    if context is None:
        return 0, uuid.uuid4().hex, None
    return context.partitionId(), str(context.taskAttemptId()), context.getLocalProperty(_QUERY)


class LogArrowWriter(DataSourceArrowWriter):
    """The writer for `df.write.format("kafkalog")`."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        self._overwrite = overwrite
        self._prepared = Prepared(options, schema, overwrite=overwrite)
        begin(work_directory(self._prepared.options.path), self._prepared.job)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Run one attempt of a task on an executor: write the rows to a staged file, and return the message for
        `commit`. Raises `UsageError` for rows that cannot be written or if the job is over, `StorageError` for I/O
        errors.
        """
        task, attempt, _ = _attempt()
        return write_task(self._prepared, iterator, self._prepared.job, task, attempt)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit what all tasks have written, as `spark.commit.commit` does; its errors are raised. Then remove the
        job's staged files, and old ones of other jobs; a `StorageError` of that is only a warning.
        """
        commit(self._prepared.options, _staged(messages), overwrite=self._overwrite)
        with _told_only():
            self._discard()
            clear_leftovers(self._prepared.options.path)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the staged files of the job, after a task or the commit has failed. They are kept if the commit must
        still be rolled back.
        """
        self._discard()

    def _discard(self) -> None:
        abandon(work_directory(self._prepared.options.path), [self._prepared.job])


class LogStreamArrowWriter(DataSourceStreamArrowWriter):
    """The writer for `df.writeStream.format("kafkalog")`. A committed batch is not written again after a restart."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if not _STREAMS:
            raise UsageError("writeStream needs PySpark 4.1 or newer; df.write inside foreachBatch works with 4.0")
        if overwrite:
            raise UsageError("outputMode complete would rewrite the log with every batch; use append or update")
        self._prepared = Prepared(options, schema, overwrite=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Run one attempt of a task of a stream's batch on an executor: create the job's directory, write the rows to a
        staged file in it, and return the message for `commit`. Raises `UsageError` for rows that cannot be written, or
        if the job ends before the first of them are written; `StorageError` for I/O errors.
        """
        task, attempt, query = _attempt()
        job = f"stream-{query}-{self._prepared.job}"
        begin(work_directory(self._prepared.options.path), job)  # the driver does not know the query's id
        staged = write_task(self._prepared, iterator, job, task, attempt)
        return Staged(staged.task, staged.job, staged.file, staged.extents, query)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit a batch of the stream, after all its tasks have written. A batch that is already committed is not
        written again. Then remove the query's staged files, and old ones of other jobs; a `StorageError` of that is
        only a warning. Raises the errors of `spark.commit.commit`: `UsageError`, `FormatError`, `RecoveryRefused` and
        `StorageError`.
        """
        staged = _staged(messages)
        commit(self._prepared.options, staged, overwrite=False, batch=batchId)
        work = work_directory(self._prepared.options.path)
        with _told_only():
            for query in {message.query for message in staged}:  # this includes files of killed attempts
                discard_all(work, f"stream-{query}-")
            clear_leftovers(self._prepared.options.path)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the staged files of a batch, after one of its tasks or the commit has failed. They are kept if the
        commit must still be rolled back.
        """
        abandon(work_directory(self._prepared.options.path), [message.job for message in _staged(messages)])
