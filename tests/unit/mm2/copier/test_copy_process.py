"""What the worker says to a copy before it copies."""

from __future__ import annotations

import dataclasses

from connect_runtime.protocol.security_settings import SecuritySettings
from mm2.copier import control_channel_messages
from mm2.copier.control_channel_messages import ClusterAccess, CopyConfiguration, CopyEndpoints
from mm2.copier.copy_process import CopyProcess
from tests.fakes import taking

ACCESS = ClusterAccess(alias="x", bootstrap=(), security={}, client_id="")
NEAR = ClusterAccess(
    alias="x",
    bootstrap=("127.0.0.1:1",),
    security=SecuritySettings(protocol="PLAINTEXT").to_dict(),
    client_id="c",
)
SETTINGS = CopyConfiguration(
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
    made = CopyProcess("unix:/nowhere", b"token")
    made._on_message(control_channel_messages.encode_copy_configuration(SETTINGS))
    made._on_message({"type": "throttle", "bytes_per_s": 7, "topics": {"orders": 5}})
    assert made._settings is not None
    assert (made._settings.throttle_bytes_s, made._settings.topic_throttles) == (7, {"orders": 5})


def test_clusters_that_were_reached_ahead_are_those_of_the_settings_or_left_again():
    made = CopyProcess("unix:/nowhere", b"token")
    wanted = CopyEndpoints(source=NEAR, target=NEAR, topics=("t",), remote_topics=("x.t",))
    made._on_message(control_channel_messages.encode_endpoints(wanted))
    made._connect_before_configuration()
    before = made._clusters
    assert [each.view.list_requested_topics() for each in before] == [("t",), ("x.t",)]
    same = dataclasses.replace(SETTINGS, source=NEAR, target=NEAR)
    made._build_loop(same)
    assert made._clusters == before
    made._build_loop(dataclasses.replace(same, target=dataclasses.replace(NEAR, client_id="other")))
    assert made._clusters != before
    for each in made._clusters:
        each.close()
