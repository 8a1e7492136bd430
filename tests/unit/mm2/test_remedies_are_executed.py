"""Every place in the code that prints a remedy has a test that types it, on real brokers where they
can be brought to print it; what only shows something has one that runs the command.

Both ways: a new remedy fails here until it has a test, and so does a line here that nothing prints.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SYSTEM = "tests/system/"
TYPES = ("obeying.obey(", "java_tools.run(", "nodes.tell(", "scene.tell(", 'mirror.mm2("resume"')
"""What types a command."""
PRINTED = "tests/interop/test_printed_commands.py::test_every_command_of_kafkas_tools_is_obeyed"
REMEDIES = f"{SYSTEM}test_remedies.py"
REJECTED = f"{REMEDIES}::test_what_the_target_rejects_is_allowed_or_skipped"
RIGHTS = f"{REMEDIES}::test_rights_that_are_printed_are_all_that_is_lacking"
CHANGES = (
    f"{SYSTEM}test_topics_that_change.py"
    "::test_each_change_halts_its_topic_alone_until_its_remedy_is_typed"
)
HANGING = "tests/interop/test_hanging_transactions.py::test_its_partition_stops_until_it_is_aborted"
OPERATORS = f"{SYSTEM}test_operators.py::test_what_is_said_to_any_node_is_done_on_all"
SETUPS = f"{SYSTEM}test_remedies_of_setups.py"
OWN_TOPICS = f"{SETUPS}::test_topics_of_the_flow_that_were_made_otherwise_are_mended"
LACKING = f"{SETUPS}::test_what_a_right_is_lacking_for_is_done_once_it_is_granted"
WARNED = f"{SETUPS}::test_what_is_warned_of_is_over_once_its_remedy_is_typed"
HALTS = f"{SYSTEM}test_remedies_of_halts.py"
TAKEN_AWAY = f"{HALTS}::test_rights_that_are_taken_away_or_never_given"
ON_MIRROR = f"{HALTS}::test_what_stands_on_the_mirror_and_not_on_the_source_is_left_behind"
WITHOUT_IDS = f"{HALTS}::test_topics_without_ids_that_go_and_come_back"

REPLICATES_AGAIN = {
    "replication.partition_halt_messages.halt_if_topic_recreated": CHANGES,
    "replication.partition_halt_messages.build_foreign_records_halt": CHANGES,
    "replication.partition_halt_messages.build_source_truncated_halt": (
        f"{REMEDIES}::test_a_source_that_lost_its_log_is_replicated_again"
    ),
    "replication.partition_halt_messages.build_source_gap_halt": (
        f"{SYSTEM}test_source_gaps.py::test_a_gap_that_halts_a_partition_is_skipped_by_its_remedy"
    ),
    "replication.partition_halt_messages.build_source_diverged_halt": (
        f"{SYSTEM}test_brokers_that_change.py"
        "::test_a_source_that_elects_a_leader_without_the_newest_records_stops_that_topic"
    ),
    "replication.partition_halt_messages.build_timestamps_rewritten_halt": REJECTED,
    "replication.partition_halt_messages.build_mirror_unreadable_halt": (
        f"{REMEDIES}::test_a_mirror_that_cannot_be_read_is_appended_to"
    ),
    "replication.partition_halt_messages.build_map_unreadable_halt": (
        f"{REMEDIES}::test_a_record_of_the_map_that_nobody_can_read_is_skipped"
    ),
    "replication.partition_halt_messages.build_era_missing_halt": (
        f"{REMEDIES}::test_a_record_of_the_map_that_nobody_can_read_is_skipped"
    ),
    "replication.partition_halt_messages.build_unreadable_batch_halt": (
        f"{REMEDIES}::test_a_record_that_a_transform_fails_on_is_skipped"
    ),
    "replication.partition_halt_messages.build_own_open_transaction_halt": HANGING,
    "replication.mirror_generations._build_mirror_not_empty_halt": REJECTED,
    "replication.error_policy._format_skip_command": REJECTED,
    "replication.partition_halt_messages._build_record_size_remedy": REJECTED,
    "replication.partition_halt_messages._build_batch_size_remedy": REJECTED,
    "replication.partition_halt_messages._build_timestamp_remedy": REJECTED,
    "replication.partition_halt_messages._build_topic_acl_remedy": RIGHTS,
    "replication.partition_halt_messages._build_read_acl_remedy": RIGHTS,
    "replication.partition_halt_messages._build_transactional_id_acl_remedy": TAKEN_AWAY,
    "replication.partition_halt_messages._build_cluster_acl_remedy": (
        f"{HALTS}::test_brokers_that_judge_as_before_2_8_want_a_right_to_producer_ids"
    ),
    "replication.partition_halt_messages.build_reverse_flow_unknown_halt": TAKEN_AWAY,
    "replication.partition_halt_messages.build_fenced_halt": (
        f"{HALTS}::test_two_owners_of_one_flow_are_told_until_one_of_them_is_stopped"
    ),
    "replication.partition_halt_messages.build_foreign_open_transaction_halt": ON_MIRROR,
    "replication.partition_halt_messages.build_ahead_of_source_halt": ON_MIRROR,
    "replication.target_log_tail_reader._halt_if_tail_ahead": ON_MIRROR,
    "replication.partition_halt_messages.build_mirror_unknown_halt": WITHOUT_IDS,
    "replication.partition_halt_messages.build_source_missing_halt": WITHOUT_IDS,
    "connectors.partition_setup_builder.PartitionSetupBuilder._build_findings": REJECTED,
    "replication.partition_halt_messages._build_missing_topic_remedy": (
        f"{SETUPS}::test_a_topic_that_is_gone_is_left_out"
    ),
    "replication.partition_halt_messages._build_codec_remedy": (
        f"{SETUPS}::test_a_target_that_lacks_a_codec_is_given_another"
    ),
    "kafka.flow_state_topics.FlowStateTopics._check_partition_count": OWN_TOPICS,
    "kafka.flow_state_topics.FlowStateTopics._check_cleanup_policy": OWN_TOPICS,
    "connectors.partition_setup_builder.PartitionSetupBuilder.read_flow_setup": LACKING,
    "connectors.acl_sync.AclSync._read_source_acls": LACKING,
    "connectors.acl_sync.AclSync._create_acls": LACKING,
    "status.status_changes.StatusChangeLog._log_flow_state": LACKING,
    "status.status_from_process._list_warnings": LACKING,
    "status.topic_explanation.PartitionExplanation.format_line": LACKING,
    "connectors.mirror_topic_writer.collect_topic_warnings": WARNED,
    "status.flow_status.describe_overrides": WARNED,
    "status.retention_risk_monitor.SourceRetentionReader._log_warnings": WARNED,
    "status.topic_explanation._explain_partition": OPERATORS,
}
"""Typed while the flow runs; afterwards records are replicated."""

SHOWN = {
    "replication.partition_halt_messages._build_invalid_record_remedy": PRINTED,
    "replication.partition_halt_messages._build_mirror_check_remedy": PRINTED,
    "replication.partition_halt_messages._build_source_check_remedy": PRINTED,
    "replication.partition_halt_messages.build_describe_producers_remedy": PRINTED,
    "connectors.partition_setup_builder.PartitionSetupBuilder._check_partition": PRINTED,
}
"""The command only shows something, so nothing follows from it; Kafka's tool runs."""

_MAKES = {"format_remedy", "format_reset_remedy", "format_skip_remedy", "_build_abort_remedy"}
_HELPERS = {f"replication.partition_halt_messages.{name}" for name in _MAKES} | {
    "suggested_commands.format_remedy"
}


def sites() -> Iterator[str]:
    """The functions that end a message with a remedy, by module and name below `mm2`."""
    for path in sorted((ROOT / "mm2").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "mm2").with_suffix("").parts)
        for name, function in _functions(ast.parse(path.read_text())):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and _called(call) in _MAKES | {
                    "build_reset_topic_command"
                }:
                    if f"{module}.{name}" not in _HELPERS:
                        yield f"{module}.{name}"
                    break


def _functions(tree: ast.AST, around: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{around}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield f"{around}{node.name}", node


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def test_every_remedy_has_a_test_and_every_test_here_a_remedy():
    listed = [*REPLICATES_AGAIN, *SHOWN]
    assert len(listed) == len(set(listed))
    assert sorted(set(sites())) == sorted(listed)


def executing() -> list[str]:
    return sorted({*REPLICATES_AGAIN.values(), *SHOWN.values()})


@pytest.mark.parametrize("test", executing())
def test_it_is_there_and_types_commands(test):
    file, _, name = test.partition("::")
    text = (ROOT / file).read_text()
    if name:
        assert f"def {name}(" in text
        assert any(each in text for each in TYPES), file


def test_a_function_that_prints_a_remedy_is_found():
    assert {
        "replication.partition_halt_messages.halt_if_topic_recreated",
        "replication.mirror_generations._build_mirror_not_empty_halt",
    } <= set(sites())
