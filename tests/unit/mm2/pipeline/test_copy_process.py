"""What the worker says to a copy before it copies."""

from __future__ import annotations

import dataclasses

from connect_runtime.wire.codec import security_settings
from mm2.core.copy import messages, reach
from mm2.pipeline import copy_process
from tests.fakes import taking

ACCESS = messages.ClusterAccess(alias="x", bootstrap=(), security={}, client_id="")
NEAR = messages.ClusterAccess(
    alias="x",
    bootstrap=("127.0.0.1:1",),
    security=security_settings.Security(protocol="PLAINTEXT").to_dict(),
    client_id="c",
)
SETTINGS = messages.Configure(
    flow="a->b",
    task=0,
    owner=taking.ME,
    source=ACCESS,
    target=ACCESS,
    partitions=(taking.where(),),
    budget_bytes=1,
    throttle_bytes_s=1_000,
)


def test_a_budget_that_changed_while_the_copy_waited_for_its_slot_holds():
    """It comes right behind the settings, before there is anything to throttle."""
    made = copy_process.CopyProcess("unix:/nowhere", b"token")
    made._on_message(messages.configure(SETTINGS))
    made._on_message({"type": "throttle", "bytes_per_s": 7, "topics": {"orders": 5}})
    assert made._settings is not None
    assert (made._settings.throttle_bytes_s, made._settings.topic_throttles) == (7, {"orders": 5})


def test_clusters_that_were_reached_ahead_are_those_of_the_settings_or_left_again():
    made = copy_process.CopyProcess("unix:/nowhere", b"token")
    wanted = reach.Reach(source=NEAR, target=NEAR, topics=("t",), mirrors=("x.t",))
    made._on_message(reach.message(wanted))
    made._reach_ahead()
    before = made._clusters
    assert [each.view.wanted() for each in before] == [("t",), ("x.t",)]
    same = dataclasses.replace(SETTINGS, source=NEAR, target=NEAR)
    made._build(same)
    assert made._clusters == before
    made._build(dataclasses.replace(same, target=dataclasses.replace(NEAR, client_id="other")))
    assert made._clusters != before
    for each in made._clusters:
        each.close()
