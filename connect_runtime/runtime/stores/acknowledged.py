"""Waiting for what was sent to a log to be in it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from connect_runtime.base import amounts, errors
from connect_runtime.ports import shared_log


def write(
    log: shared_log.SharedLog, records: Sequence[shared_log.Record], timeout_s: float
) -> None:
    """Send them in this order, wait for all. Raises the first failure; `RetriableError` when time
    is up: then they may be written, or may still be."""
    answers: list[errors.ConnectError | None] = []
    changed = threading.Condition()

    def note(error: errors.ConnectError | None) -> None:
        with changed:
            answers.append(error)
            changed.notify_all()

    for record in records:
        log.send(record, on_recorded=note)
    with changed:
        if not changed.wait_for(lambda: len(answers) == len(records), timeout=timeout_s):
            missing = len(records) - len(answers)
            raise errors.RetriableError(
                f"writing to {log.name}: {missing} of {amounts.counted(len(records), 'record')} "
                f"{amounts.agreeing(missing, 'were')} not acknowledged within {timeout_s:.0f} s; "
                "they may be there all the same"
            )
        failed = [error for error in answers if error is not None]
    if failed:
        raise failed[0]
