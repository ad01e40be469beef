"""Long lists of cases, of which every test run takes a part and `dev.py sweep` the rest.

A test that is parametrized with many recorded directories or many stops says the same of each; what is wrong with it is
nearly always wrong for many.  `SHARES` has one entry for each such test: every how many of its cases everybody runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

__all__ = ["EACH", "SHARES", "leave_to_recorded"]

EACH = pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.recorded)])
"""For tests that go over a list themselves: every third, and all of them."""

SHARES = {
    "cli/test_dump_columns.py::test_all_records_are_there": 3,
    "cli/test_dump_at_speed.py::test_recorded_directories": 4,
    "cli/test_dump_recorded_lines.py::test_lines": 3,
    "cli/test_report.py::test_the_map_covers_every_byte_and_agrees_with_verify": 3,
    "cli/test_text_of_runs.py::test_every_line_of_a_broker": 4,
    "cluster/test_assignors.py::test_every_recorded_assignment_is_what_its_assignor_gives": 3,
    "cluster/test_typed_records.py::test_every_layout_reads_what_it_writes_and_survives_every_cut": 3,
    "cluster/test_coordinator_logs.py::test_serve_does_not_deny_offsets_of_a_log_that_is_not_whole": 3,
    "codec/test_every_broker_file.py::test_every_file_is_read_and_written_again": 3,
    "codec/test_legacy_runs.py::test_what_brokers_wrote_is_read_alike": 6,
    "house/test_arguments.py::test_a_function_says_what_is_wrong": 2,
    "log/test_batch_filter.py::test_every_way_of_reading_leaves_out_the_same": 2,
    "log/test_record_objects.py::test_every_record_of_a_broker": 4,
    "recovery/test_append_after.py::test_append_after_recovery": 3,
    "recovery/test_checkpoints_a_broker_reads_late.py::test_one_that_cannot_be_read_is_put_aside": 3,
    "recovery/test_compact.py::test_stopped_anywhere_a_second_run_completes_and_undo_restores": 4,
    "recovery/test_interrupted.py::test_an_undo_stopped_anywhere_is_gone_on_with": 4,
    "recovery/test_interrupted.py::test_stopped_anywhere_a_second_run_completes_and_undo_restores": 4,
    "recovery/test_plan_and_verify.py::test_on_damaged_directories": 3,
    "recovery/test_plan_and_verify.py::test_on_tiered_logs": 3,
    "recovery/test_recommendations.py::test_the_recommended_way_loses_least_and_what_it_said": 3,
    "recovery/test_stale_runs.py::test_a_broker_started_on_a_run_that_was_cut_short": 3,
    "recovery/test_unreadable.py::test_all_but_a_file_beside_the_log_is_verified": 3,
    "recovery/test_unreadable.py::test_the_others_are_planned_for_and_recovered": 3,
    "recovery/test_unreadable.py::test_what_is_no_file_keeps_recovery_from_its_own_partition_only": 3,
    "recovery/test_ways.py::test_ways_keep_what_they_say": 3,
    "recovery/test_workers.py::test_the_plan_is_the_same": 3,
    "tiers/test_object_store.py::test_requests_of_one_look_up": 6,
}


def leave_to_recorded(items: Iterable[pytest.Item]) -> None:
    """Mark all but the first of every so many cases."""
    seen: Counter[str] = Counter()
    for item in items:
        name = item.nodeid.partition("[")[0].removeprefix("tests/")
        every = SHARES.get(name)
        if every is not None:
            if seen[name] % every:
                item.add_marker(pytest.mark.recorded)
            seen[name] += 1
