"""Who leads writes what its file makes of the connectors; who does not looks for differences."""

from __future__ import annotations

import dataclasses
import pathlib
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from connect_runtime.app import fleet_member
from connect_runtime.core.herder import requests
from connect_runtime.core.state import config_records
from connect_runtime.system import clock
from mm2.app import connector_writes, flow_plan
from mm2.app.settings import load
from tests.fakes import rest_herder

FILE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
emit.heartbeats.enabled=false
"""


class Herder(rest_herder.FakeHerder):
    """Takes any configuration."""

    def _invalid(self, config: Any) -> None:
        return None


@dataclass
class Member:
    leads: bool = True
    leader_url: str = ""
    herder: Herder = field(default_factory=Herder)

    @property
    def stored(self) -> dict[str, dict[str, str | None]]:
        view = self.herder.config()
        return {name: dict(view.config(name) or {}) for name in view.connectors()}


def plan(*lines: str) -> flow_plan.FlowPlan:
    text = FILE + "\n".join(lines)
    found = load.parse_properties(text, file="mm2", folder=pathlib.Path("/"), environment={})
    (made,) = flow_plan.plans(found, flow_plan.EVERYTHING, environment={})
    return made


@pytest.fixture
def member() -> Member:
    return Member()


def as_member(found: Member) -> fleet_member.Member:
    return cast(fleet_member.Member, found)


def writes(of: flow_plan.FlowPlan) -> connector_writes.ConnectorWrites:
    return connector_writes.ConnectorWrites(of, clock=clock.SystemClock())


def test_a_leader_writes_all_that_can_run(member):
    made = writes(plan())
    made.lead(as_member(member))
    assert member.stored == {name: dict(of) for name, of in plan().connectors.items()}
    assert made.settled
    count = len(member.herder.submitted)
    made.lead(as_member(member))
    assert len(member.herder.submitted) == count


def test_what_is_switched_off_is_not_written_and_taken_away(member):
    writes(plan()).lead(as_member(member))
    off = plan("emit.checkpoints.enabled=false")
    made = writes(off)
    made.lead(as_member(member))
    assert flow_plan.CHECKPOINT not in member.stored
    assert made.settled


def test_what_operators_set_is_kept(member):
    writes(plan()).lead(as_member(member))
    stored = member.stored[flow_plan.SOURCE] | {"live.paused.topic.orders": "true"}
    member.herder.write(config_records.creation(flow_plan.SOURCE, stored, None))
    writes(plan("topics=x")).lead(as_member(member))
    found = member.stored[flow_plan.SOURCE]
    assert (found["live.paused.topic.orders"], found["topics"]) == ("true", "x")


def test_another_plan_is_written_when_it_is_looked_for(member):
    made = writes(plan())
    made.lead(as_member(member))
    made.change(plan("topics=x"))
    waits = made.settled
    made.look(as_member(member), 0.0)
    assert (waits, made.settled) == (False, True)
    assert member.stored[flow_plan.SOURCE]["topics"] == "x"


def test_a_refusal_is_told_and_tried_again(member, caplog):
    made = writes(plan())
    member.herder.fails = TimeoutError("the herder is busy")
    made.lead(as_member(member))
    assert "the herder is busy" in caplog.text
    assert not made.settled
    member.herder.fails = None
    made.look(as_member(member), 0.0)
    assert made.settled


def test_who_followed_and_leads_now_writes_until_it_is_written(member):
    made = writes(plan())
    follower = dataclasses.replace(member, leads=False)
    made.look(as_member(follower), 0.0)
    assert made.settled, "others write"
    member.herder.fails = TimeoutError("the herder is busy")
    made.lead(as_member(member))
    assert not made.settled
    member.herder.fails = None
    made.look(as_member(member), 10.0)
    assert member.herder.config().config("MirrorSourceConnector") is not None
    assert made.settled


def test_who_does_not_lead_knows_who_has_to_write(member):
    writes(plan()).lead(as_member(member))
    made = writes(plan("topics=x"))
    follower = dataclasses.replace(member, leads=False, leader_url="http://h:1/")
    made.look(as_member(follower), 0.0)
    assert made.led_elsewhere == (
        "a->b: the node at http://h:1/ leads, and writes what its own file says: give it the same "
        "file, and reload there; they differ in MirrorSourceConnector: topics; "
        "MirrorHeartbeatConnector: topics; MirrorCheckpointConnector: topics"
    )
    follower.leader_url = ""
    made.look(as_member(follower), 0.0)
    assert "another node leads" in made.led_elsewhere
    made.look(as_member(member), 1.0)
    assert made.led_elsewhere == "", "it leads now, and has written"
    made.change(plan())
    assert made.led_elsewhere == ""


def test_files_that_differ_are_told_by_their_keys_after_a_while(member, caplog):
    writes(plan("a->b.producer.override.request.timeout.ms=4711")).lead(as_member(member))
    made, follower = writes(plan()), dataclasses.replace(member, leads=False)
    made.look(as_member(follower), 0.0)
    assert caplog.text == ""
    made.look(as_member(follower), connector_writes.UNLIKE_S)
    made.look(as_member(follower), 2 * connector_writes.UNLIKE_S)
    (record,) = (each for each in caplog.records if each.levelname == "WARNING")
    assert "MirrorSourceConnector: producer.override.request.timeout.ms" in record.message
    assert "4711" not in caplog.text
    assert made.settled
    assert not any(isinstance(e, requests.PutConnector) for e in follower.herder.submitted[3:])
