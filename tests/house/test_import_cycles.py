"""No module needs another one that needs it, and no room another one that needs it.

Every import counts: one inside of a function, which only hides a cycle from Python, and one for type checkers alone.
Rooms are the packages and modules that are beside each other in a package.
"""

from __future__ import annotations

import grimp
import pytest


@pytest.fixture
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("kafkalog", exclude_type_checking_imports=False, cache_dir=None)


def circles(graph: grimp.ImportGraph) -> dict[str, list[tuple[str, str]]]:
    """Imports that would have to go, by the package in which they close a circle."""
    packages = sorted(module for module in graph.modules if graph.find_children(module))
    assert {"kafkalog.codec", "kafkalog.codec.native", "kafkalog.log"} <= set(packages)
    found = {package: sorted(graph.nominate_cycle_breakers(package)) for package in packages}
    return {package: imports for package, imports in found.items() if imports}


def test_no_imports_go_round_in_circles(graph: grimp.ImportGraph) -> None:
    assert circles(graph) == {}


def test_a_circle_is_found(graph: grimp.ImportGraph) -> None:
    graph.add_import(importer="kafkalog.codec.rules.framing", imported="kafkalog.codec.plain.scanner")
    assert list(circles(graph)) == ["kafkalog.codec"]
