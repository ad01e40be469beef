"""The table from log messages to pages: every row leads somewhere, and Kafka's releases print what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_messages import COLUMNS, PAGE, classes_of, has_message, messages

RUNBOOK = PAGE.parent / "runbook"
NOT_PRINTED = {
    "backup": "a backup is taken while nothing has failed",
    "dead-cluster": "no broker runs",
    "ephemeral-quarantine": "a recovery wrote into the wrong place; no broker reads it",
    "log-into-cluster": "records are taken over on purpose, while nothing fails",
    "lost-marker": "a broker that waits for a marker prints nothing of it",
    "moved-controllers": "the controllers were moved on purpose, while they were stopped",
    "no-controller": "the brokers' lines are those of lost-controllers",
    "one-broker-left": "the broker that is left is sound, and prints what every broker does that loses its followers",
    "zookeeper-lost": "brokers print that the cluster id is another one, which leads to meta-properties",
}
"""Pages of what no broker's log tells, and why none does."""


def test_every_row_names_releases_and_leads_to_a_page() -> None:
    rows = messages()
    assert len(rows) > 40
    assert len({row.text for row in rows}) == len(rows)
    for row in rows:
        assert set(row.releases) <= COLUMNS.keys(), row.text
        assert list(row.releases) == sorted(row.releases), row.text
        assert (PAGE.parent / row.page).is_file(), row.page
        assert all(len(piece) > 8 for piece in row.pieces), row.text


def test_every_page_of_something_that_a_broker_prints_is_reached() -> None:
    reached = {Path(row.page).stem for row in messages()}
    pages = {page.stem for page in RUNBOOK.glob("*.md")}
    assert pages - reached - NOT_PRINTED.keys() == set()
    assert NOT_PRINTED.keys() & reached == set()


@pytest.mark.interop
@pytest.mark.parametrize("release", COLUMNS)
def test_a_release_prints_what_the_table_says(release: str) -> None:
    classes = classes_of(release)
    assert len(classes) > 1000
    printed = {row.text for row in messages() if has_message(row, classes)}
    assert printed == {row.text for row in messages() if release in row.releases}
