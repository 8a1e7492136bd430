"""Who leads writes what its file makes of the connectors; who does not looks for differences."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from connect_runtime.herder.herder_requests import PutConnector
from connect_runtime.storage import config_records
from mm2.config import config_loader, dedicated_mode, flow_connector_configs
from mm2.config.flow_connector_configs import FlowPlan, FlowSelection
from mm2.node import config_publisher
from mm2.node.config_publisher import ConfigPublisher
from tests.fakes import fleets
from tests.fakes.fleets import Member

FILE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
emit.heartbeats.enabled=false
"""

CONNECTORS = tuple(dedicated_mode.CONNECTORS)


def plan(*lines: str, choice: FlowSelection = flow_connector_configs.ALL_FLOWS) -> FlowPlan:
    text = FILE + "\n".join(lines)
    found = config_loader.parse_mm2_properties(
        text, file="mm2", folder=pathlib.Path("/"), environment={}
    )
    (made,) = flow_connector_configs.plan_flows(found, choice, environment={})
    return made


@pytest.fixture
def member() -> Member:
    return Member()


def writes(of: FlowPlan) -> ConfigPublisher:
    return ConfigPublisher(of)


def written(of: FlowPlan, member: Member) -> ConfigPublisher:
    """By a leader."""
    made = writes(of)
    leads(made, member)
    return made


def leads(made: ConfigPublisher, member: Member, now_s: float = 0.0) -> None:
    made.notify_leadership(fleets.as_member(member))
    made.write_or_compare_configs(fleets.as_member(member), now_s)


def test_a_leader_writes_all_that_can_run(member):
    made = written(plan(), member)
    assert member.stored == {name: dict(of) for name, of in plan().connectors.items()}
    assert made.has_written_configs
    count = len(member.herder.submitted)
    leads(made, member)
    assert len(member.herder.submitted) == count


def test_what_is_switched_off_is_not_written_and_taken_away(member):
    written(plan(), member)
    made = written(plan("emit.checkpoints.enabled=false"), member)
    assert flow_connector_configs.CHECKPOINT_CONNECTOR not in member.stored
    assert made.has_written_configs


def test_what_operators_set_is_kept(member):
    written(plan(), member)
    stored = member.stored[flow_connector_configs.SOURCE_CONNECTOR] | {
        "live.paused.topic.orders": "true"
    }
    member.herder.write(
        config_records.encode_connector_creation(
            flow_connector_configs.SOURCE_CONNECTOR, stored, None
        )
    )
    written(plan("topics=x"), member)
    found = member.stored[flow_connector_configs.SOURCE_CONNECTOR]
    assert (found["live.paused.topic.orders"], found["topics"]) == ("true", "x")


def test_another_plan_is_written_when_it_is_looked_for(member):
    made = written(plan(), member)
    made.replace_plan(plan("topics=x"))
    waits = made.has_written_configs
    made.write_or_compare_configs(fleets.as_member(member), 0.0)
    assert (waits, made.has_written_configs) == (False, True)
    assert member.stored[flow_connector_configs.SOURCE_CONNECTOR]["topics"] == "x"


def test_nobody_waits_for_a_herder_that_is_busy(member):
    made = writes(plan())
    member.herder.silent = True
    leads(made, member)
    made.write_or_compare_configs(fleets.as_member(member), 1.0)
    assert len(member.herder.submitted) == len(plan().connectors), "each was asked once"
    assert not made.has_written_configs
    for request, asked in zip(member.herder.submitted, member.herder.pending, strict=True):
        asked.set_result(member.herder._serve(request))
    made.write_or_compare_configs(fleets.as_member(member), 2.0)
    assert made.has_written_configs


def test_who_is_not_answered_asks_again_after_a_while(member, caplog):
    made = writes(plan())
    member.herder.silent = True
    leads(made, member)
    made.write_or_compare_configs(fleets.as_member(member), config_publisher.WRITE_TIMEOUT_S - 0.1)
    assert "not configured yet" not in caplog.text
    member.herder.silent = False
    made.write_or_compare_configs(fleets.as_member(member), config_publisher.WRITE_TIMEOUT_S)
    assert (
        "MirrorSourceConnector is not configured yet; retrying: the worker did not reply"
        in caplog.text
    )
    assert made.has_written_configs


def test_a_worker_that_was_begun_anew_is_asked_at_once(member):
    made = writes(plan())
    member.herder.silent = True
    leads(made, member)
    again = Member()
    leads(made, again, 0.2)
    assert made.has_written_configs
    assert again.stored.keys() == plan().connectors.keys()


def test_a_failure_is_told_and_tried_again(member, caplog):
    made = writes(plan())
    member.herder.fails = TimeoutError("the herder is busy")
    leads(made, member)
    assert "the herder is busy" in caplog.text
    assert not made.has_written_configs
    member.herder.fails = None
    made.write_or_compare_configs(fleets.as_member(member), config_publisher.RETRY_DELAY_S - 0.1)
    assert not made.has_written_configs
    made.write_or_compare_configs(fleets.as_member(member), config_publisher.RETRY_DELAY_S)
    assert made.has_written_configs


def test_what_is_refused_is_told_once_and_left_until_it_is_another(member, caplog):
    made = written(plan(), member)
    member.herder.invalid = "Invalid value x\nfor topics"
    made.replace_plan(plan("topics=x"))
    for now_s in (0.0, 60.0, 120.0):
        made.write_or_compare_configs(fleets.as_member(member), now_s)
    told = [each.message for each in caplog.records if each.levelname == "ERROR"]
    assert told == [
        f"a->b: the configuration of {name} was rejected: Invalid value x for topics"
        for name in CONNECTORS
    ]
    assert made.rejections == dict.fromkeys(CONNECTORS, "Invalid value x for topics")
    assert made.has_written_configs, "nothing is left to be tried"
    assert len(member.herder.submitted) == 2 * len(CONNECTORS)
    member.herder.invalid = None
    leads(made, member, 180.0)
    assert len(member.herder.submitted) == 2 * len(CONNECTORS), "who leads anew knows it"
    made.replace_plan(plan("topics=x"))
    assert made.rejections == {}
    made.write_or_compare_configs(fleets.as_member(member), 240.0)
    assert member.stored[flow_connector_configs.SOURCE_CONNECTOR]["topics"] == "x"


def test_what_is_refused_for_now_is_told_once_and_tried_again(member, caplog):
    made = writes(plan())
    member.herder.stale = True
    leads(made, member)
    made.write_or_compare_configs(fleets.as_member(member), config_publisher.RETRY_DELAY_S)
    assert caplog.text.count("the configuration of MirrorSourceConnector was rejected: ") == 1
    assert (made.rejections, made.has_written_configs) == ({}, False)
    member.herder.stale = False
    made.write_or_compare_configs(fleets.as_member(member), 2 * config_publisher.RETRY_DELAY_S)
    assert made.has_written_configs


def test_whose_file_another_node_writes_has_nothing_refused(member):
    member.herder.invalid = "no"
    made = written(plan(), member)
    assert made.rejections
    member.herder.invalid = None
    written(plan("topics=x"), member)
    made.write_or_compare_configs(
        fleets.as_member(dataclasses.replace(member, is_leader=False)), 1.0
    )
    assert made.rejections == {}


def test_a_plan_that_comes_while_another_is_written_is_written_next(member):
    made = writes(plan())
    member.herder.silent = True
    leads(made, member)
    made.replace_plan(plan("topics=x"))
    member.herder.silent = False
    for request, asked in zip(member.herder.submitted, member.herder.pending, strict=True):
        asked.set_result(member.herder._serve(request))
    made.write_or_compare_configs(fleets.as_member(member), 0.2)
    assert member.stored[flow_connector_configs.SOURCE_CONNECTOR]["topics"] == "x"
    assert made.has_written_configs


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
def test_who_followed_and_leads_now_writes_until_it_is_written(member, told):
    made = writes(plan())
    follower = dataclasses.replace(member, is_leader=False)
    made.write_or_compare_configs(fleets.as_member(follower), 0.0)
    followed = made.has_written_configs
    assert followed, "others write"
    member.herder.fails = TimeoutError("the herder is busy")
    if told:
        made.notify_leadership(fleets.as_member(member))
    made.write_or_compare_configs(fleets.as_member(member), 1.0)
    assert not made.has_written_configs
    member.herder.fails = None
    made.write_or_compare_configs(fleets.as_member(member), 10.0)
    assert member.herder.get_config_state().config("MirrorSourceConnector") is not None
    assert made.has_written_configs


def test_who_leads_anew_writes_again_as_others_may_have_written_meanwhile(member):
    made = written(plan(), member)
    written(plan("topics=x"), member)
    made.write_or_compare_configs(fleets.as_member(member), 1.0)
    assert member.stored[flow_connector_configs.SOURCE_CONNECTOR]["topics"] == "x", (
        "somebody else's, over REST: it stays"
    )
    leads(made, member, 2.0)
    assert member.stored[flow_connector_configs.SOURCE_CONNECTOR].get("topics") != "x"


def test_who_does_not_lead_knows_who_has_to_write(member):
    written(plan(), member)
    made = writes(plan("topics=x"))
    follower = dataclasses.replace(member, is_leader=False, leader_url="http://h:1/")
    made.write_or_compare_configs(fleets.as_member(follower), 0.0)
    assert made.other_leader_reason == (
        "a->b: the node at http://h:1/ leads, and uses a different file: give the leading node the "
        "same file, and reload it; the differences are: MirrorSourceConnector: topics; "
        "MirrorHeartbeatConnector: topics; MirrorCheckpointConnector: topics"
    )
    follower.leader_url = ""
    made.write_or_compare_configs(fleets.as_member(follower), 0.0)
    assert "another node leads" in made.other_leader_reason
    made.write_or_compare_configs(fleets.as_member(member), 1.0)
    assert made.other_leader_reason == "", "it leads now, and has written"
    made.replace_plan(plan())
    assert made.other_leader_reason == ""


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (FlowSelection(java_stopped=True), "uses a different command line:"),
        (FlowSelection(throttle=1000), "uses a different file or command line:"),
    ],
)
def test_what_the_command_line_alone_sets_is_no_other_file(member, choice, words):
    written(plan(), member)
    made = writes(plan(choice=choice))
    made.write_or_compare_configs(
        fleets.as_member(dataclasses.replace(member, is_leader=False)), 0.0
    )
    assert words in made.other_leader_reason
    assert "and restart it" in made.other_leader_reason


def test_files_that_differ_are_told_by_their_keys_after_a_while(member, caplog):
    written(plan("a->b.producer.override.request.timeout.ms=4711"), member)
    made, follower = writes(plan()), dataclasses.replace(member, is_leader=False)
    made.write_or_compare_configs(fleets.as_member(follower), 0.0)
    assert caplog.text == ""
    made.write_or_compare_configs(fleets.as_member(follower), config_publisher.MISMATCH_GRACE_S)
    made.write_or_compare_configs(fleets.as_member(follower), 2 * config_publisher.MISMATCH_GRACE_S)
    (record,) = (each for each in caplog.records if each.levelname == "WARNING")
    assert "MirrorSourceConnector: producer.override.request.timeout.ms" in record.message
    assert "4711" not in caplog.text
    assert made.has_written_configs
    assert not any(isinstance(e, PutConnector) for e in follower.herder.submitted[3:])
