"""What the worker says to a copy before it copies."""

from __future__ import annotations

from mm2.core.copy import messages
from mm2.pipeline import copy_process
from tests.fakes import taking

ACCESS = messages.ClusterAccess(alias="x", bootstrap=(), security={}, client_id="")


def test_a_budget_that_changed_while_the_copy_waited_for_its_slot_holds():
    """It comes right behind the settings, before there is anything to throttle."""
    made = copy_process.CopyProcess("unix:/nowhere", b"token")
    settings = messages.Configure(
        flow="a->b",
        task=0,
        owner=taking.ME,
        source=ACCESS,
        target=ACCESS,
        partitions=(taking.where(),),
        budget_bytes=1,
        throttle_bytes_s=1_000,
    )
    made._on_message(messages.configure(settings))
    made._on_message({"type": "throttle", "bytes_per_s": 7, "topics": {"orders": 5}})
    assert made._settings is not None
    assert (made._settings.throttle_bytes_s, made._settings.topic_throttles) == (7, {"orders": 5})
