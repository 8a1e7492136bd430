"""The words of Java's worker; that they are its own is compared with it in tests/interop."""

from __future__ import annotations

import pytest

from connect_runtime.worker import connector_offsets
from connect_runtime.worker.connector_offsets import OffsetChangeKind, SourceOrSink

SOURCE, SINK = SourceOrSink.SOURCE, SourceOrSink.SINK
ALTER, RESET = OffsetChangeKind.ALTER, OffsetChangeKind.RESET


@pytest.mark.parametrize(("change", "done"), [(ALTER, "altered"), (RESET, "reset")])
def test_who_must_do_the_rest_is_told(change, done):
    assert connector_offsets.format_offset_change_success(change, by_connector_too=True) == (
        f"The offsets for this connector have been {done} successfully"
    )
    whole = connector_offsets.format_offset_change_success(change, by_connector_too=False)
    assert whole.startswith(
        f"The Connect framework-managed offsets for this connector have been {done} successfully."
    )
    assert whole.endswith(
        f"they will need to be manually {done} in the system that the connector uses."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            connector_offsets.format_offset_read_failure(SINK, "c"),
            "retrieve consumer group offsets for sink connector c",
        ),
        (
            connector_offsets.format_offset_read_failure(SOURCE, "c"),
            "Failed to retrieve offsets for source connector c",
        ),
        (
            connector_offsets.format_offset_change_failure(SINK, "c"),
            "Failed to modify offsets for sink connector c",
        ),
        (
            connector_offsets.format_group_offsets_list_failure("c"),
            "prior to resetting offsets for sink connector c",
        ),
        (
            connector_offsets.format_alter_offsets_timeout(SINK, "c"),
            "'alterOffsets' method for sink connector c",
        ),
        (
            connector_offsets.format_offset_read_timeout("c"),
            "modifying offsets for source connector c",
        ),
        (
            connector_offsets.format_offset_write_timeout("c"),
            "attempting to modify offsets for source connector c",
        ),
        (
            connector_offsets.format_offset_changes_unsupported("c"),
            "connector c because it doesn't support external modification",
        ),
        (
            connector_offsets.format_group_offsets_change_failure(ALTER, "c"),
            "Failed to alter consumer group offsets for connector c",
        ),
        (
            connector_offsets.format_group_offsets_change_failure(RESET, "c"),
            "reset consumer group offsets for sink connector c",
        ),
        (
            connector_offsets.format_consumer_group_in_use(ALTER, "c"),
            "Failed to alter consumer group offsets for connector c ",
        ),
        (
            connector_offsets.format_consumer_group_in_use(RESET, "c"),
            "request to reset its offsets could be successfully",
        ),
    ],
)
def test_each_says_whose_offsets_they_are(text, expected):
    assert expected in text
