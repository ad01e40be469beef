"""Changes to the files of one partition in a tree."""

from __future__ import annotations

from kafkalog.codec.common.source import Source
from kafkalog.codec.names import SWAP, FileKind, segment_file
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.safe.log_contents import reset_indexes


def unread(path: str) -> Source:
    raise AssertionError(path)


def test_indexes_of_an_unfinished_replacement_keep_their_entries() -> None:
    """`.swap` files are another segment: a broker takes them over as they are."""
    names = [segment_file(0, kind) for kind in (FileKind.OFFSET_INDEX, FileKind.TRANSACTION_INDEX)]
    tree = Tree({f"t-0/{name}{suffix}": 34 for name in names for suffix in ("", SWAP)}, ["t-0"], unread)
    reset_indexes(tree, "t-0", {0})
    sizes = {path.partition("/")[2]: tree.files[path].size for path in tree.files}
    assert sizes == {segment_file(0, FileKind.TIME_INDEX): 0} | {
        name + suffix: 34 if suffix else 0 for name in names for suffix in ("", SWAP)
    }
