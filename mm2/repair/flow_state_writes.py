"""Appends records of repair commands to a flow's own topics and waits for acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.formats import offset_map_records
from mm2.kafka.kafka_client_interfaces import FlowStateLogFullError
from mm2.offsets.offset_map_rebuild_plan import MapRecord
from mm2.replication.recovery_instructions import FlowStateRecord

STORE_TIMEOUT_S = 60.0
_STORE_POLL_INTERVAL_S = 0.5


def append_map_records(
    store: FlowStateStore,
    records: Sequence[MapRecord],
    *,
    clock: Clock,
) -> None:
    """Append records to the offset map in the given order. The last record makes the preceding
    records valid, so it is appended only after they are stored.

    Raises `RetriableError` if the records are not stored within `STORE_TIMEOUT_S`. Errors of the
    cluster are raised unchanged.
    """
    items = [
        FlowStateRecord(
            key=offset_map_records.encode_map_key(key),
            value=offset_map_records.encode_map_value(value),
        )
        for key, value in records
    ]
    append_records(store, items[:-1], clock=clock)
    append_records(store, items[-1:], clock=clock)


def append_records(
    store: FlowStateStore,
    items: Sequence[FlowStateRecord],
    *,
    clock: Clock,
) -> None:
    """Append `items` to the topics that store the flow's state (offset map and incidents), and wait
    until the target has acknowledged all of them. Raises the same errors as
    `append_map_records`."""
    end = Deadline.after(STORE_TIMEOUT_S, now_s=clock.now_s())
    failed: list[ConnectError] = []
    stored = [0]

    def on_record_stored(error: ConnectError | None) -> None:
        if error is not None:
            failed.append(error)
        stored[0] += 1

    def poll_flow_state_store() -> None:
        if end.is_expired(clock.now_s()):
            raise RetriableError(f"not acknowledged by the target within {STORE_TIMEOUT_S:g} s")
        store.run_once(_STORE_POLL_INTERVAL_S)

    for item in items:
        while not failed:
            try:
                store.append(item, on_recorded=on_record_stored)
                break
            except FlowStateLogFullError:
                poll_flow_state_store()
    while stored[0] < len(items) and not failed:
        poll_flow_state_store()
    if failed:
        raise failed[0]
