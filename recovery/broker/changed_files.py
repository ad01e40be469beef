"""Compare the files of one partition directory before and after a simulated start.

A process that examines partitions returns only these differences, and not everything that a directory has; most
partitions have none.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from kafkalog.codec.names import FileKind
from kafkalog.log.storage.content import Content
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import LoadedPartition

__all__ = ["ChangedFiles", "changed_files"]


class ChangedFiles(Struct, frozen=True):
    """Content of new and changed files of a directory by name, and names of removed files."""

    changed: Mapping[str, Content] = field(default_factory=dict)
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)

    def put(self, tree: Tree, loaded: LoadedPartition) -> None:
        """Apply the changes of the partition directory `loaded.name` to `tree`, which has it as it was before the
        start: remove, replace and add files, then rename the directory if the start makes it a stray. The directory's
        modification times are forgotten.
        """
        directory = loaded.name
        tree.forget_times(directory)
        for name in self.gone:
            tree.delete(f"{directory}/{name}")
        for name, content in self.changed.items():
            tree.files[f"{directory}/{name}"] = content
        if loaded.stray is not None:
            tree.rename_directory(directory, loaded.stray)


_UNCHANGED = ChangedFiles()


def changed_files(before: Tree, after: Tree, loaded: LoadedPartition) -> ChangedFiles:
    """Compare a partition directory before a start (`loaded.name`) and after it (`loaded.stray` if it was renamed as
    stray). In the result, `changed` maps file names to the content of new and changed files, and `gone` has the sorted
    names of removed files. Equal files are not listed. The content of a file that was only truncated, except a log, is
    a slice of the old one.

    Logs are not read: a `.log` file whose content consists of other parts of files counts as changed, even if the bytes
    are equal. Raises `StorageError` if another file cannot be read.
    """
    directory, its_name = loaded.name, loaded.stray or loaded.name
    names = before.all_names(directory)
    left = after.all_names(its_name)
    changed = {}
    for name in left:
        path, its_path = f"{directory}/{name}", f"{its_name}/{name}"
        old, new = before.files.get(path), after.files[its_path]
        if old is new or old == new:
            continue
        if old is None or name.endswith(FileKind.LOG.value):
            changed[name] = new
            continue
        kept = old.slice(0, min(new.size, old.size))
        if not after.is_content(its_path, kept):
            changed[name] = new
        elif new.size < old.size:
            changed[name] = kept  # which says without another look that the file is only cut
    gone = () if names == left else tuple(sorted(set(names) - set(left)))
    return ChangedFiles(changed, gone) if changed or gone else _UNCHANGED
