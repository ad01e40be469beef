"""The table of findings: every code has an entry, and what is found has a severity that the table allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from kafkalog.codec.common.finding_codes import SPECS, Family, FindingCode, Severity, Trait, advice_for, codes_with
from kafkalog.codec.common.findings import Finding
from kafkalog.recovery.checks.verify import verify
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import broker_cases
from testkit.recorded.recovery_cases import unpacked_cases

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_every_code_has_its_entry_in_the_order_of_the_enumeration() -> None:
    assert list(SPECS) == list(FindingCode)
    for spec in SPECS.values():
        assert spec.severity not in (spec.also or {})
        assert all((spec.also or {}).values()), spec.code
        assert advice_for(spec.code)
    assert {spec.family for spec in SPECS.values()} == set(Family)


@pytest.mark.parametrize("trait", list(Trait), ids=lambda trait: str(trait.name))
def test_a_trait_is_of_some_codes_and_not_of_all(trait: Trait) -> None:
    assert 0 < len(codes_with(trait)) < len(FindingCode) // 4


def test_a_finding_has_the_severity_of_the_table() -> None:
    for code, spec in SPECS.items():
        assert Finding.of(code, 7, detail="why") == Finding(code, spec.severity, 7, detail="why")


def test_what_is_found_has_a_severity_that_the_table_allows(measured: Callable[[str, int], None]) -> None:
    seen: Counter[tuple[FindingCode, Severity]] = Counter()
    damaged = (case.before for case in unpacked_cases(12))  # each is removed when the next one comes
    stopped = (broker for case in broker_cases()[::12] for broker in brokers(case.id))
    for directory in chain(damaged, stopped):
        for report in verify(directory).directories:
            found = [*report.findings, *(each for part in report.partitions for each in part.findings)]
            seen.update((each.code, each.severity) for each in found)
    wrong = {pair for pair in seen if pair[1] not in {SPECS[pair[0]].severity, *(SPECS[pair[0]].also or {})}}
    assert wrong == set()
    measured("kinds of findings whose severity the table has", len(seen))


@pytest.mark.parametrize("code", list(FindingCode))
def test_a_code_is_on_its_page_with_its_severity(code: FindingCode) -> None:
    page = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert f"| `{code}` | {SPECS[code].severity}" in page
