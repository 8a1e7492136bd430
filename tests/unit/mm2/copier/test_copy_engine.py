from __future__ import annotations

import pytest

from mm2.copier import copy_engine
from mm2.copier.copy_engine import CopyJob, CopyState, CopyStateTracker, SlotUsage


def state_of(handle) -> CopyState:
    """Asked anew each time, which the type checker does not expect of a property."""
    state: CopyState = handle.state
    return state


def test_a_job_is_described_as_operators_know_it():
    job = CopyJob(flow="east->west", index=3, address="unix:/x", token=b"hush")
    assert job.description == "east->west task 3"
    assert "hush" not in repr(job)


@pytest.mark.parametrize(
    ("total", "used", "waiting", "missing"),
    [(4, 4, 2, 2), (4, 3, 2, 1), (4, 2, 2, 0), (0, 0, 3, 3), (2, 4, 1, 1), (512, 0, 0, 0)],
)
def test_missing_slots(total, used, waiting, missing):
    assert SlotUsage(total=total, used=used, waiting=waiting).missing_slots == missing


def test_progress_only_goes_forward():
    progress = CopyStateTracker()
    assert state_of(progress) is CopyState.WAITING_FOR_SLOT
    assert not progress.wait(0.0)
    progress.set_running()
    assert state_of(progress) is CopyState.RUNNING
    assert progress.set_ended("first")
    assert not progress.set_ended("second")
    progress.set_running()
    assert state_of(progress) is CopyState.ENDED
    assert progress.error == "first"
    assert progress.wait(0.0)


def test_an_entry_is_named_by_module_and_function():
    assert copy_engine.resolve_entry_point("json:dumps") is __import__("json").dumps
    with pytest.raises(ImportError):
        copy_engine.resolve_entry_point("no_such_module:run")
    with pytest.raises(AttributeError):
        copy_engine.resolve_entry_point("json:no_such_function")
