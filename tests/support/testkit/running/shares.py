"""Long lists of cases, of which every test run takes a part and `dev.py sweep` the rest.

A test that is parametrized with many recorded directories or many stops says the same of each; what is wrong with it is
nearly always wrong for many.  Everybody runs a fourth of them, but at least eight, of the lists about
pages and about the house all.  `SHARES` has the tests that take long with few cases: every how many of them everybody
runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

__all__ = ["EACH", "SHARES", "leave_to_recorded"]

EACH = pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.recorded)])
"""For tests that go over a list themselves: every third, and all of them."""

_EVERY = 4
_FEW = 8
_WHOLE = ("docs/", "house/", "runbook/")
"""What a colleague changes with every page and module."""
SHARES = {
    "cli/dump/test_dump_compiled.py::test_recorded_directories": 4,
    "cli/dump/test_columns.py::test_all_records_are_there": 3,
    "cli/dump/test_dump_matches_kafka.py::test_records_are_those_of_kafkas_consumer": 6,
    "cli/dump/test_dump_recorded_lines.py::test_lines": 3,
    "reporting/test_page.py::test_the_map_covers_every_byte_and_agrees_with_verify": 3,
    "cli/dump/test_dump_text.py::test_every_line_of_a_broker": 4,
    "cluster/assignors/test_assignors.py::test_every_recorded_assignment_is_what_its_assignor_gives": 3,
    "cluster/test_coordinator_logs.py::test_serve_does_not_deny_offsets_of_a_log_that_is_not_whole": 3,
    "cluster/test_coordinator_logs.py::test_there_is_no_group_only_where_that_is_known": 3,
    "cluster/test_coordinator_logs.py::test_what_goes_of_a_log_that_is_not_whole_is_not_known": 3,
    "cluster/test_coordinator_logs.py::test_what_is_gone_of_the_offsets_is_said": 3,
    "cluster/records/test_records_typed.py::test_every_layout_reads_what_it_writes_and_survives_every_cut": 3,
    "codec/compression/test_compression.py::test_bombs_stop_at_the_cap": 2,
    "codec/files/test_files_of_brokers.py::test_every_file_is_read_and_written_again": 6,
    "codec/headers/test_message_runs.py::test_what_brokers_wrote_is_read_alike": 6,
    "differential/test_peers.py::test_a_thousand_batches": 2,
    "hostile/test_server_bounds.py::test_what_is_named_again_and_again_is_answered_once": 4,
    "house/test_arguments.py::test_a_function_says_what_is_wrong": 2,
    "log/walk/test_batch_filter.py::test_every_way_of_reading_leaves_out_the_same": 2,
    "log/directories/test_follow.py::test_what_is_followed_is_what_a_fresh_look_finds": 3,
    "log/reading/test_reading_in_threads.py::test_what_a_file_loses_while_it_is_read_is_missed": 2,
    "log/reading/test_records_from_columns.py::test_every_record_of_a_broker": 4,
    "recovery/test_run_append_after.py::test_append_after_recovery": 3,
    "recovery/broker/test_manager_late_checkpoints.py::test_one_that_cannot_be_read_is_put_aside": 3,
    "jobs/compact/test_run.py::test_stopped_anywhere_a_second_run_completes_and_undo_restores": 4,
    "recovery/act/test_runner.py::test_a_run_killed_while_it_is_announced_and_what_follows_killed_anywhere": 2,
    "recovery/act/test_runner.py::test_an_undo_stopped_anywhere_is_gone_on_with": 4,
    "recovery/act/test_runner.py::test_stopped_anywhere_a_second_run_completes_and_undo_restores": 4,
    "recovery/decide/test_plan_against_verify.py::test_on_damaged_directories": 3,
    "recovery/decide/test_plan_against_verify.py::test_on_tiered_logs": 3,
    "recovery/decide/test_choosing.py::test_the_recommended_way_loses_least_and_what_it_said": 3,
    "recovery/act/test_states.py::test_a_broker_started_on_a_run_that_was_cut_short": 3,
    "recovery/facts/test_unreadable.py::test_all_but_a_file_beside_the_log_is_verified": 3,
    "recovery/facts/test_unreadable.py::test_the_others_are_planned_for_and_recovered": 3,
    "recovery/facts/test_unreadable.py::test_what_is_no_file_keeps_recovery_from_its_own_partition_only": 3,
    "recovery/decide/test_ways.py::test_ways_keep_what_they_say": 3,
    "log/directories/test_workers.py::test_the_plan_is_the_same": 3,
    "server/test_server_clients.py::test_a_client_reads_what_kafkas_consumer_read": 4,
    "replay/test_run_open_transactions.py::test_the_coordinators_log_decides_what_it_can": 2,
    "replay/test_run.py::test_what_ends_anywhere_goes_on_there": 3,
    "tiers/aiven/test_aiven.py::test_a_manifest_is_not_trusted": 4,
    "tiers/aiven/test_aiven.py::test_a_record_costs_its_chunk": 4,
    "tiers/aiven/test_aiven.py::test_chunks_lie_where_the_plugin_finds_them": 4,
    "tiers/aiven/test_aiven.py::test_damage_in_a_chunk_is_said": 4,
    "tiers/test_remote_tier_object_store.py::test_requests_of_one_look_up": 6,
    "tiers/test_tiers_random_damage.py::test_nothing_wrong_is_given_and_what_is_lost_is_named": 6,
    "tiers/test_tiers_served_and_spark.py::test_a_client_is_given_what_a_broker_gave": 3,
    "values/test_decoding.py::test_hostile_avro_ends_soon_and_is_undecodable": 2,
    "values/test_tables.py::test_a_filter_gives_the_same_rows_everywhere": 3,
}


def leave_to_recorded(items: Sequence[pytest.Item]) -> None:
    """Mark what is left out of a test's cases; those that stay are spread evenly over the list."""
    names = [item.nodeid.partition("[")[0].removeprefix("tests/") for item in items]
    cases, seen = Counter(names), Counter[str]()
    for name, item in zip(names, items, strict=True):
        every = SHARES.get(name)
        taken = -(-cases[name] // every) if every else cases[name]
        if every is None and not name.startswith(_WHOLE):
            taken = max(-(-cases[name] // _EVERY), min(cases[name], _FEW))
        if seen[name] * taken % cases[name] >= taken:
            item.add_marker(pytest.mark.recorded)
        seen[name] += 1
