"""Whether every byte that was there is still somewhere: in the log directory, or in a quarantine."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["Originals"]

_TAIL = re.compile(r"\.tail@(\d+)$")


class Originals:
    """The contents of all files of a directory, as they were."""

    def __init__(self, root: Path) -> None:
        self.contents = {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file() and path.name != ".lock" and not path.name.startswith(".kafkalog-quarantine")
        }

    def missing(self, *places: Path | None) -> list[str]:
        """Paths whose content is nowhere below these directories: neither whole, nor as a cut file and its tail.

        What goes may be zeros, which nobody needs to keep.
        """
        found: set[bytes] = set()
        tails: set[tuple[int, bytes]] = set()
        for place in places:
            for path in place.rglob("*") if place is not None and place.exists() else ():
                if path.is_file() and not path.is_symlink():
                    data = path.read_bytes()
                    found.add(data)
                    match = _TAIL.search(path.name)
                    if match is not None:
                        tails.add((int(match.group(1)), data))
        return [
            path
            for path, content in self.contents.items()
            if content not in found
            and not any(
                content[kept:] == tail and any(each.startswith(content[:kept]) for each in found)
                for kept, tail in tails
                if kept <= len(content)
            )
            and not any(content.startswith(each) and not any(content[len(each) :]) for each in found)
        ]
