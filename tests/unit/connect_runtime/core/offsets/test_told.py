"""The words of Java's worker; that they are its own is compared with it in tests/interop."""

from __future__ import annotations

import pytest

from connect_runtime.core.offsets import told

SOURCE, SINK = told.Kind.SOURCE, told.Kind.SINK
ALTER, RESET = told.Change.ALTER, told.Change.RESET


@pytest.mark.parametrize(("change", "done"), [(ALTER, "altered"), (RESET, "reset")])
def test_who_must_do_the_rest_is_told(change, done):
    assert told.changed(change, by_connector_too=True) == (
        f"The offsets for this connector have been {done} successfully"
    )
    whole = told.changed(change, by_connector_too=False)
    assert whole.startswith(
        f"The Connect framework-managed offsets for this connector have been {done} successfully."
    )
    assert whole.endswith(
        f"they will need to be manually {done} in the system that the connector uses."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (told.not_read(SINK, "c"), "retrieve consumer group offsets for sink connector c"),
        (told.not_read(SOURCE, "c"), "Failed to retrieve offsets for source connector c"),
        (told.not_changed(SINK, "c"), "Failed to modify offsets for sink connector c"),
        (told.not_listed("c"), "prior to resetting offsets for sink connector c"),
        (told.connector_too_slow(SINK, "c"), "'alterOffsets' method for sink connector c"),
        (told.topic_too_slow("c"), "modifying offsets for source connector c"),
        (told.write_too_slow("c"), "attempting to modify offsets for source connector c"),
        (told.unsupported("c"), "connector c because it doesn't support external modification"),
        (told.group_refused(ALTER, "c"), "Failed to alter consumer group offsets for connector c"),
        (told.group_refused(RESET, "c"), "reset consumer group offsets for sink connector c"),
        (told.group_in_use(ALTER, "c"), "Failed to alter consumer group offsets for connector c "),
        (told.group_in_use(RESET, "c"), "request to reset its offsets could be successfully"),
    ],
)
def test_each_says_whose_offsets_they_are(text, expected):
    assert expected in text
