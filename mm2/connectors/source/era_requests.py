"""An operator's request that partitions begin anew, written into a flow's map.

It is answered when a copy next takes the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from connect_runtime.base import amounts, clock, deadline, errors, ids
from mm2.cluster import errors as cluster_errors
from mm2.cluster import flow_log
from mm2.connectors.share import flow_ledger
from mm2.core.copy import instructions
from mm2.core.offsets import offset_map
from mm2.formats import map_record

TIMEOUT_S = 30.0


def record(
    positions: Mapping[ids.TopicPartition, str],
    ledger: flow_ledger.FlowLedger,
    *,
    now: clock.Clock,
    new_id: Callable[[], str],
) -> offset_map.OffsetMap:
    """Each of these begins anew at its position (`map_record.Request`); the map as it is then.

    `ledger` is open, `new_id` makes ids of requests. Raises `RetriableError`, also where somebody
    else asks for something else at the same time, and `FatalError` as the ledger.
    """
    wanted = {
        name: map_record.Request(request=new_id(), position=position)
        for name, position in positions.items()
    }
    _append(wanted, ledger, now)
    known = ledger.catch_up()
    for name, request in wanted.items():
        found = known.partition(name).request
        if found is None or found.request != request.request:
            position = "another position" if found is None else found.position
            raise errors.RetriableError(
                f"not recorded: somebody else reset {name} to {position} at the same time"
            )
    return known


def _append(
    wanted: Mapping[ids.TopicPartition, map_record.Request],
    ledger: flow_ledger.FlowLedger,
    now: clock.Clock,
) -> None:
    stored: list[ids.TopicPartition] = []
    failures: list[errors.ConnectError] = []

    def recorder(name: ids.TopicPartition) -> Callable[[errors.ConnectError | None], None]:
        def recorded(error: errors.ConnectError | None) -> None:
            if error is None:
                stored.append(name)
            else:
                failures.append(error)

        return recorded

    end = deadline.Deadline.after(TIMEOUT_S, now_s=now.now_s())

    def work() -> None:
        ledger.work(0.1)
        if failures:
            raise failures[0]
        if end.passed(now.now_s()):
            all_of_them = amounts.counted(len(wanted), "partition")
            raise errors.RetriableError(
                f"not recorded: only the requests of {len(stored)} of {all_of_them} were "
                f"acknowledged within {TIMEOUT_S:g} s; asking again does no harm"
            )

    for name, request in wanted.items():
        key = map_record.RequestKey(topic=name.topic, partition=name.partition)
        item = instructions.LogItem(
            key=map_record.encode_key(key), value=map_record.encode_value(request)
        )
        while not _is_taken(ledger, item, recorder(name)):
            work()
    while len(stored) < len(wanted):
        work()


def _is_taken(
    ledger: flow_ledger.FlowLedger, item: instructions.LogItem, on_recorded: flow_log.OnRecorded
) -> bool:
    try:
        ledger.append(item, on_recorded=on_recorded)
    except cluster_errors.FlowLogFullError:
        return False
    return True
