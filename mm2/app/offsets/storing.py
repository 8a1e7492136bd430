"""Records of commands on their way into a flow's own topics."""

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
    items = [
        instructions.LogItem(key=map_record.encode_key(key), value=map_record.encode_value(value))
        for key, value in records
    ]
    append_all(ledger, items[:-1], clock=clock)
    append_all(ledger, items[-1:], clock=clock)


def append_all(
    ledger: flow_ledger.FlowLedger,
    items: Sequence[instructions.LogItem],
    *,
    clock: base_clock.Clock,
) -> None:
    """Until the target has acknowledged all of them. Raises as `append`."""
    end = base_deadline.Deadline.after(STORE_S, now_s=clock.now_s())
    failed: list[errors.ConnectError] = []
    stored = [0]

    def recorded(error: errors.ConnectError | None) -> None:
        if error is not None:
            failed.append(error)
        stored[0] += 1

    def turn() -> None:
        if end.passed(clock.now_s()):
            raise errors.RetriableError(f"not acknowledged by the target within {STORE_S:g} s")
        ledger.work(_TURN_S)

    for item in items:
        while not failed:
            try:
                ledger.append(item, on_recorded=recorded)
                break
            except cluster_errors.FlowLogFullError:
                turn()
    while stored[0] < len(items) and not failed:
        turn()
    if failed:
        raise failed[0]
