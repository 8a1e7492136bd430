"""Records of a map that was made anew, on their way into its topic."""

from __future__ import annotations

from collections.abc import Sequence

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors
from mm2.cluster import errors as cluster_errors
from mm2.connectors.share import flow_ledger
from mm2.core.copy import instructions
from mm2.core.offsets import rebuilt_map
from mm2.formats import map_record

STORE_S = 60.0
_TURN_S = 0.5


def append(
    ledger: flow_ledger.FlowLedger,
    records: Sequence[rebuilt_map.Record],
    *,
    clock: base_clock.Clock,
) -> None:
    """In order, the last of them once all before it are stored: it is what others go by.

    Raises `RetriableError` when that takes longer than `STORE_S`, and what the cluster answers.
    """
    *before, last = records
    _append_all(ledger, before, clock=clock)
    _append_all(ledger, [last], clock=clock)


def _append_all(
    ledger: flow_ledger.FlowLedger,
    records: Sequence[rebuilt_map.Record],
    *,
    clock: base_clock.Clock,
) -> None:
    end = base_deadline.Deadline.after(STORE_S, now_s=clock.now_s())
    failed: list[errors.ConnectError] = []
    stored = [0]

    def recorded(error: errors.ConnectError | None) -> None:
        if error is not None:
            failed.append(error)
        stored[0] += 1

    def turn() -> None:
        if end.passed(clock.now_s()):
            raise errors.RetriableError("storing the map: not acknowledged in time")
        ledger.work(_TURN_S)

    for key, value in records:
        item = instructions.LogItem(
            key=map_record.encode_key(key), value=map_record.encode_value(value)
        )
        while not failed:
            try:
                ledger.append(item, on_recorded=recorded)
                break
            except cluster_errors.FlowLogFullError:
                turn()
    while stored[0] < len(records) and not failed:
        turn()
    if failed:
        raise failed[0]
