"""Scenarios of Java's WorkerCoordinatorTest and WorkerCoordinatorIncrementalTest among them."""

from __future__ import annotations

import pytest

from connect_runtime.core.assignment import cooperative, leader, lost, protocol, work
from tests.fakes import connect_group

V0, V1, V2 = protocol.Protocol.EAGER, protocol.Protocol.COMPATIBLE, protocol.Protocol.SESSIONED
TIMES = lost.Times(now_ms=1_790_000_000_000, delay_max_ms=300_000)


def configured(offset: int = 10, **task_counts: int) -> work.Configured:
    return work.Configured(offset=offset, task_counts=task_counts or {"c1": 2, "c2": 1})


def says(
    member: str,
    offset: int = 10,
    *,
    held: work.Work = work.NO_WORK,
    version: protocol.Protocol = V2,
) -> bytes:
    told = protocol.Assignment(leader="old", leader_url="", config_offset=3, assigned=held)
    state = protocol.WorkerState(url=f"http://{member}/", config_offset=offset, allocation=told)
    return protocol.encode_metadata(state, version)


def elected(members: dict[str, bytes], version: protocol.Protocol = V2) -> leader.Election:
    return leader.Election(
        leader="leader", protocol=version, generation=5, last_completed=4, members=members
    )


def led(
    members: dict[str, bytes],
    *,
    version: protocol.Protocol = V2,
    knows: work.Configured | None = None,
    newest: work.Configured | None = None,
    state: cooperative.State | None = None,
) -> tuple[leader.Lead, dict[str, protocol.Assignment]]:
    knows = knows or configured()
    found = leader.lead(
        elected(members, version),
        leader.Snapshots(joined_with=knows, newest=newest or knows),
        state or cooperative.State(generation=4),
        times=TIMES,
    )
    assert list(found.answers) == list(members)
    assert all(found.answers.values()), "an empty answer ends a Java worker"
    return found, {
        member: protocol.decode_assignment(data) for member, data in found.answers.items()
    }


TWO = {"leader": says("leader"), "member": says("member")}


@pytest.mark.parametrize("version", list(protocol.Protocol))
def test_every_member_is_answered_in_the_groups_protocol(version):
    found, answers = led({name: says(name, version=version) for name in TWO}, version=version)
    for data, answer in zip(found.answers.values(), answers.values(), strict=True):
        assert int.from_bytes(data[:2], "big") == version.version
        assert (answer.leader, answer.leader_url) == ("leader", "http://leader/")
        assert answer.error == protocol.NO_ERROR
        assert answer.config_offset == 10
    given = [str(item) for answer in answers.values() for item in answer.assigned.items]
    assert sorted(given) == ["c1", "c1-0", "c1-1", "c2", "c2-0"]


def test_eager_members_share_in_turns():
    _, answers = led(TWO, version=V0)
    shares = {member: list(map(str, each.assigned.items)) for member, each in answers.items()}
    assert shares == {"leader": ["c1", "c1-0", "c2-0"], "member": ["c2", "c1-1"]}


def test_the_eager_protocol_leaves_what_the_other_one_remembers():
    state = cooperative.State(generation=4, members=frozenset({"x"}), revoking_rounds=2)
    found, _ = led(TWO, version=V0, state=state)
    assert found.state == state


def share(connector: str, *numbers: int) -> work.Work:
    tasks = connect_group.tasks(connector, 4)
    return work.Work(connectors=(connector,), tasks=tuple(tasks[each] for each in numbers))


def test_a_third_member_gets_nothing_before_the_others_have_stopped():
    members = {
        "leader": says("leader", held=share("c1", 0, 1, 2, 3)),
        "member": says("member", held=share("c2", 0, 1, 2, 3)),
        "third": says("third"),
    }
    found, answers = led(members, knows=configured(c1=4, c2=4))
    assert {name: len(each.revoked.tasks) for name, each in answers.items()} == {
        "leader": 1,
        "member": 1,
        "third": 0,
    }
    assert not any(each.assigned for each in answers.values())
    assert found.delay_ms == 0
    assert found.state.revoked == {item for each in answers.values() for item in each.revoked.items}


def test_the_delay_is_told_to_everybody():
    state = cooperative.State(
        generation=4,
        members=frozenset({"leader", "gone"}),
        previous=frozenset(configured().work().items),
    )
    found, answers = led(TWO, state=state)
    assert {each.delay_ms for each in answers.values()} == {TIMES.delay_max_ms}
    assert found.delay_ms == TIMES.delay_max_ms
    _, again = led({"leader": says("leader", version=V1)}, version=V1, state=state)
    assert again["leader"].delay_ms == TIMES.delay_max_ms


# Who knows the config topic how far


def ahead(offset: int) -> dict[str, bytes]:
    return {"leader": says("leader"), "member": says("member", offset)}


@pytest.mark.parametrize("version", list(protocol.Protocol))
def test_a_leader_that_is_behind_tells_everybody_to_read_on(version):
    state = cooperative.State(generation=4, revoking_rounds=1)
    found, answers = led(ahead(12), version=version, newest=configured(11), state=state)
    for answer in answers.values():
        assert answer.error == protocol.CONFIG_MISMATCH
        assert answer.config_offset == 12
        assert (answer.leader, answer.leader_url) == ("leader", "http://leader/")
        assert not answer.assigned
        assert not answer.revoked
        assert answer.delay_ms == 0
    assert found.owners is None
    assert found.state == state


def test_a_leader_that_has_read_on_meanwhile_plans_from_what_it_knows_now():
    newest = configured(14, c9=1)
    found, answers = led(ahead(12), newest=newest)
    assert {each.config_offset for each in answers.values()} == {14}
    assert found.configured == newest
    assert {found.owners.url("c9")} <= {"http://leader/", "http://member/"}


def test_a_leader_that_joined_with_enough_does_not_use_what_came_since():
    found, answers = led(ahead(10), newest=configured(14, c9=1))
    assert {each.config_offset for each in answers.values()} == {10}
    assert found.configured == configured()


def test_members_that_are_behind_are_told_how_far_to_read():
    _, answers = led({"leader": says("leader"), "member": says("member", -1)})
    assert answers["member"].config_offset == 10
    assert answers["member"].error == protocol.NO_ERROR


# Owners


@pytest.mark.parametrize("version", [V0, V2])
def test_owners_are_those_that_run_it_after_the_round(version):
    found, answers = led(TWO, version=version)
    for member, answer in answers.items():
        for item in answer.assigned.items:
            assert found.owners.url(item) == f"http://{member}/"
    assert found.owners.url("unheard of") is None


def test_what_is_revoked_has_no_owner():
    everything = configured().work()
    found, answers = led({"leader": says("leader", held=everything), "member": says("member")})
    (taken, *_) = answers["leader"].revoked.items
    assert found.owners.url(taken) is None
    kept = next(item for item in everything.items if item not in answers["leader"].revoked.items)
    assert found.owners.url(kept) == "http://leader/"


# What members say that cannot be read


@pytest.mark.parametrize("version", list(protocol.Protocol))
@pytest.mark.parametrize("said", [b"", b"\xff\xff", b"\0\1\0\5abc"])
def test_a_member_that_cannot_be_understood_is_answered_and_runs_nothing(said, version):
    found, answers = led({**TWO, "odd": said}, version=version)
    assert answers["odd"].error == protocol.NO_ERROR
    assert not answers["odd"].assigned
    assert list(found.malformed) == ["odd"]
    assert "a member's metadata" in found.malformed["odd"]
    assert len(found.owners.members) == 5


def test_a_leader_that_cannot_understand_itself_raises():
    with pytest.raises(protocol.MalformedBytesError):
        led({"leader": b"", "member": says("member")})


def test_a_version_from_the_future_is_a_member_like_others():
    future = (9).to_bytes(2, "big") + says("member")[2:] + b"more"
    found, answers = led({"leader": says("leader"), "member": future})
    assert answers["member"].assigned
    assert not found.malformed


def test_the_order_of_answers_to_the_join_does_not_matter():
    reversed_ = dict(reversed(TWO.items()))
    assert led(TWO)[1] == led(reversed_)[1]
