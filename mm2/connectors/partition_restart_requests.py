"""Records an operator's request to restart replication of partitions from another source position.

The request is a record in the offset map. The next copy process that acquires the partition
executes the request by starting a new era, that is, a new generation of the mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import NewEraRequest, NewEraRequestKey
from mm2.kafka.kafka_client_interfaces import FlowStateLogFullError, OnRecorded
from mm2.offsets.offset_map import OffsetMap
from mm2.replication.recovery_instructions import FlowStateRecord

RECORD_TIMEOUT_S = 30.0


def record_era_requests(
    positions: Mapping[TopicPartition, str],
    store: FlowStateStore,
    *,
    now: Clock,
    new_id: Callable[[], str],
) -> OffsetMap:
    """Request a new era (generation of the mirror) of each partition at its given start position
    (`NewEraRequest`). Returns the updated offset map.

    `store` must be open; `new_id` creates request ids. Raises `RetriableError` if the requests are
    not stored in time or another operator's request is recorded concurrently, and any `FatalError`
    of `store`.
    """
    requests = {
        name: NewEraRequest(request=new_id(), position=position)
        for name, position in positions.items()
    }
    _append_era_requests(requests, store, now)
    offset_map = store.read_offset_map_to_end()
    for name, request in requests.items():
        recorded = offset_map.get_partition(name).request
        if recorded is None or recorded.request != request.request:
            position = "another position" if recorded is None else recorded.position
            raise RetriableError(
                f"restart request not recorded: another operator reset {name} to {position} at the "
                "same time"
            )
    return offset_map


def _append_era_requests(
    requests: Mapping[TopicPartition, NewEraRequest],
    store: FlowStateStore,
    now: Clock,
) -> None:
    stored: list[TopicPartition] = []
    failures: list[ConnectError] = []

    def build_request_stored_callback(
        name: TopicPartition,
    ) -> Callable[[ConnectError | None], None]:
        def on_recorded(error: ConnectError | None) -> None:
            if error is None:
                stored.append(name)
            else:
                failures.append(error)

        return on_recorded

    end = Deadline.after(RECORD_TIMEOUT_S, now_s=now.now_s())

    def poll_store() -> None:
        store.run_once(0.1)
        if failures:
            raise failures[0]
        if end.is_expired(now.now_s()):
            total = plurals.format_count(len(requests), "partition")
            raise RetriableError(
                f"restart requests not recorded: only those for {len(stored)} of {total} were "
                f"acknowledged within {RECORD_TIMEOUT_S:g} s; the command can be repeated safely"
            )

    for name, request in requests.items():
        key = NewEraRequestKey(topic=name.topic, partition=name.partition)
        item = FlowStateRecord(
            key=offset_map_records.encode_map_key(key),
            value=offset_map_records.encode_map_value(request),
        )
        while not _try_append_item(store, item, build_request_stored_callback(name)):
            poll_store()
    while len(stored) < len(requests):
        poll_store()


def _try_append_item(store: FlowStateStore, item: FlowStateRecord, on_recorded: OnRecorded) -> bool:
    try:
        store.append(item, on_recorded=on_recorded)
    except FlowStateLogFullError:
        return False
    return True
