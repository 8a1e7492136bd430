"""Records an operator's request that partitions start again at another position.

The request is a record in the offset map. The copy that next acquires the partition carries it
out by beginning a new era: a generation of the mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from connect_runtime.base import plurals
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from mm2.connectors.flow_ledger import FlowLedger
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import NewEraRequest, NewEraRequestKey
from mm2.kafka.client_interfaces import FlowLogFullError, OnRecorded
from mm2.offsets.offset_map import OffsetMap
from mm2.replication.recovery_instructions import FlowLogItem

RECORD_TIMEOUT_S = 30.0


def record_era_requests(
    positions: Mapping[TopicPartition, str],
    ledger: FlowLedger,
    *,
    now: Clock,
    new_id: Callable[[], str],
) -> OffsetMap:
    """Each of these begins anew at its position (`NewEraRequest`); the map as it is then.

    `ledger` is open, `new_id` makes ids of requests. Raises `RetriableError`, also where somebody
    else asks for something else at the same time, and `FatalError` as the ledger.
    """
    wanted = {
        name: NewEraRequest(request=new_id(), position=position)
        for name, position in positions.items()
    }
    _append_requests(wanted, ledger, now)
    known = ledger.catch_up()
    for name, request in wanted.items():
        found = known.partition(name).request
        if found is None or found.request != request.request:
            position = "another position" if found is None else found.position
            raise RetriableError(
                f"not recorded: somebody else reset {name} to {position} at the same time"
            )
    return known


def _append_requests(
    wanted: Mapping[TopicPartition, NewEraRequest],
    ledger: FlowLedger,
    now: Clock,
) -> None:
    stored: list[TopicPartition] = []
    failures: list[ConnectError] = []

    def recorder(name: TopicPartition) -> Callable[[ConnectError | None], None]:
        def recorded(error: ConnectError | None) -> None:
            if error is None:
                stored.append(name)
            else:
                failures.append(error)

        return recorded

    end = Deadline.after(RECORD_TIMEOUT_S, now_s=now.now_s())

    def work() -> None:
        ledger.work(0.1)
        if failures:
            raise failures[0]
        if end.passed(now.now_s()):
            all_of_them = plurals.format_count(len(wanted), "partition")
            raise RetriableError(
                f"not recorded: only the requests of {len(stored)} of {all_of_them} were "
                f"acknowledged within {RECORD_TIMEOUT_S:g} s; asking again does no harm"
            )

    for name, request in wanted.items():
        key = NewEraRequestKey(topic=name.topic, partition=name.partition)
        item = FlowLogItem(
            key=offset_map_records.encode_key(key), value=offset_map_records.encode_value(request)
        )
        while not _try_append(ledger, item, recorder(name)):
            work()
    while len(stored) < len(wanted):
        work()


def _try_append(ledger: FlowLedger, item: FlowLogItem, on_recorded: OnRecorded) -> bool:
    try:
        ledger.append(item, on_recorded=on_recorded)
    except FlowLogFullError:
        return False
    return True
