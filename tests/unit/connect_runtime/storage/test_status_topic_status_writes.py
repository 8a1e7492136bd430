from __future__ import annotations

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import status_records
from connect_runtime.storage.status_records import RunState, RunStatus, StatusSubject
from connect_runtime.storage.status_topic import (
    AdmittedStatusWrite,
    StatusChanged,
    StatusRemoved,
    StatusTopicState,
    StatusWriteGuard,
)

State = RunState
TASK = ConnectorTaskId("c", 0)


def says(state, generation, worker="us:1"):
    return RunStatus(state=state, worker_id=worker, generation=generation)


def knowing(*words):
    log = StatusTopicState()
    for subject, status in words:
        record = status_records.encode_status(subject, status)
        log.apply_record(record.key, record.value, offset=0)
    return log.snapshot()


NOTHING = knowing()


def admit(
    writes: StatusWriteGuard,
    subject: StatusSubject,
    status: RunStatus,
    *,
    safe: bool = False,
) -> AdmittedStatusWrite:
    """The ticket of a write that nothing known speaks against."""
    ticket = writes.admit_write(subject, status, safe=safe, known=NOTHING)
    assert ticket is not None
    return ticket


@pytest.mark.parametrize(
    ("known", "safe", "admitted"),
    [
        (None, True, True),
        (says(State.RUNNING, 1, "them:1"), True, False),
        (says(State.RUNNING, 0, "them:1"), True, True),
        (says(State.RUNNING, -1, "them:1"), True, True),
        (says(State.RUNNING, 9, "us:1"), True, True),
        (says(State.RUNNING, 9, "them:1"), False, True),
    ],
)
def test_a_safe_write_gives_way_to_a_newer_word_of_another_worker(known, safe, admitted):
    """KafkaStatusBackingStoreTest.putSafe*: ours is of generation 0."""
    view = knowing(*([("c", known)] if known else []))
    writes = StatusWriteGuard()
    ticket = writes.admit_write("c", says(State.FAILED, 0), safe=safe, known=view)
    assert (ticket is not None) is admitted


@pytest.mark.parametrize("safe", [True, False])
def test_a_lost_write_is_tried_again_until_a_newer_one(safe):
    writes = StatusWriteGuard()
    first = admit(writes, TASK, says(State.FAILED, 1), safe=safe)
    assert writes.may_retry(first, known=NOTHING)
    second = admit(writes, TASK, says(State.UNASSIGNED, 1), safe=safe)
    assert not writes.may_retry(first, known=NOTHING)
    assert writes.may_retry(second, known=NOTHING)


def test_a_lost_safe_write_gives_way_to_what_was_read_meanwhile():
    writes = StatusWriteGuard()
    ticket = admit(writes, TASK, says(State.UNASSIGNED, 1), safe=True)
    newer = knowing((TASK, says(State.RUNNING, 2, "them:1")))
    assert not writes.may_retry(ticket, known=newer)


def test_a_lost_write_of_an_older_generation_is_given_up():
    writes = StatusWriteGuard()
    ticket = admit(writes, TASK, says(State.RUNNING, 1))
    admit(writes, "other", says(State.RUNNING, 2))
    assert not writes.may_retry(ticket, known=NOTHING)


@pytest.mark.parametrize("removed", [TASK, "c"])
def test_a_lost_write_does_not_bring_back_what_was_removed(removed):
    writes = StatusWriteGuard()
    ticket = admit(writes, TASK, says(State.RUNNING, 1))
    writes.discard_writes_of_removed_status(StatusChanged(removed))
    assert writes.may_retry(ticket, known=NOTHING)
    writes.discard_writes_of_removed_status(StatusRemoved(removed))
    assert not writes.may_retry(ticket, known=NOTHING)
    again = admit(writes, TASK, says(State.RUNNING, 1))
    assert again.sequence == ticket.sequence
    assert not writes.may_retry(ticket, known=NOTHING)
    assert writes.may_retry(again, known=NOTHING)


def test_the_removal_of_another_is_nothing_to_us():
    writes = StatusWriteGuard()
    ticket = admit(writes, TASK, says(State.RUNNING, 1))
    for other in ("d", ConnectorTaskId("c", 1)):
        writes.discard_writes_of_removed_status(StatusRemoved(other))
    assert writes.may_retry(ticket, known=NOTHING)
