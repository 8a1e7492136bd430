"""Both assignors, leaders and members against Java's own classes, on generated histories of groups.

Bytes go in and bytes come out: ours are read by Java, Java's by us. Java walks its members in the
order of a hash map; the member ids here are such that this order is theirs, too.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connect_protocol, connectors_and_tasks, leader_assignment
from connect_runtime.group.assignor import AssignorState, RebalanceTimes
from connect_runtime.group.connect_protocol import ConnectAssignment, ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from connect_runtime.group.leader_assignment import (
    ConfiguredWorkSnapshots,
    LeaderElection,
    MemberAssignment,
)
from tests.interop import java_assignors

pytestmark = pytest.mark.integration

V0, V1, V2 = ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED
WORKERS = "pqrstuvwxyz"
"""Hash codes 112 to 122: buckets 0 to 10 of a hash map of up to 12 entries, in order."""
LEADER_CASES = 120
MEMBER_CASES = 60
ROUNDS = 30


@dataclass(slots=True)
class Group:
    """A group's history, made by our own leaders and members, and the questions for Java's."""

    rng: random.Random
    members: dict[str, MemberAssignment] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    offset: int = 1
    now_ms: int = 1_790_000_000_000
    generation: int = 0
    leads: str = ""
    delay_max_ms: int = 0
    protocol: ConnectProtocol = V2
    state: AssignorState = field(default_factory=AssignorState)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    expected: list[Mapping[str, bytes]] = field(default_factory=list)

    @classmethod
    def made(cls, seed: int) -> Group:
        rng = random.Random(seed)
        group = cls(rng, delay_max_ms=rng.choice([0, 1, 60_000, 300_000]))
        for _ in range(3):
            group.configure()
        for _ in range(rng.randint(1, 4)):
            group.join()
        for _ in range(ROUNDS):
            for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
                rng.choice([group.configure, group.join, group.leave, group.speak])()
            group.now_ms += rng.choice([0, 1, 40, 1600, 64_000, 150_000, 300_000])
            group.round()
        return group

    def configure(self) -> None:
        self.offset += 1
        name = f"c{self.rng.randint(0, 7)}"
        if name in self.counts and self.rng.random() < 0.4:
            del self.counts[name]
        else:
            self.counts[name] = self.rng.choice([0, 1, 2, 5, 9])

    def join(self) -> None:
        absent = sorted(set(WORKERS) - set(self.members))
        if absent:
            self.members[self.rng.choice(absent)] = MemberAssignment.create_initial(V2)

    def leave(self) -> None:
        if len(self.members) > 1:
            del self.members[self.rng.choice(sorted(self.members))]

    def speak(self) -> None:
        self.protocol = self.rng.choice([V2, V2, V2, V1, V0])

    def configured(self) -> ConfiguredWork:
        return ConfiguredWork(offset=self.offset, task_counts=dict(self.counts))

    def round(self) -> None:
        new_leader = self.leads not in self.members or self.rng.random() < 0.05
        if new_leader:
            self.leads = self.rng.choice(sorted(self.members))
            self.state = AssignorState()
        self.generation += self.rng.choice([1, 1, 1, 1, 2])
        snapshots = self.snapshots()
        election = self.election(snapshots)
        times = RebalanceTimes(now_ms=self.now_ms, delay_max_ms=self.delay_max_ms)
        found = leader_assignment.perform_assignment(election, snapshots, self.state, times=times)
        self.ask(election, snapshots, new_leader=new_leader)
        self.state = found.state
        self.expected.append(found.assignments)
        for name, answer in found.assignments.items():
            if self.rng.random() < 0.95:
                told = self.members[name].apply_assignment(
                    answer, protocol_name=self.protocol.wire_name, generation=self.generation
                )
                self.members[name] = told.member

    def snapshots(self) -> ConfiguredWorkSnapshots:
        """The leader may be behind when it joins, and still be behind when it leads."""
        joined_with = newest = self.configured()
        if self.rng.random() < 0.15:
            joined_with = ConfiguredWork(offset=self.offset - 1, task_counts={"old": 2})
            if self.rng.random() < 0.5:
                newest = joined_with
        elif self.rng.random() < 0.15:
            newest = ConfiguredWork(offset=self.offset + 1, task_counts={"new": 2})
        return ConfiguredWorkSnapshots(at_join=joined_with, newest=newest)

    def election(self, snapshots: ConfiguredWorkSnapshots) -> LeaderElection:
        said = {}
        for name in sorted(self.members):
            offset = self.offset - (self.rng.random() < 0.2)
            if name == self.leads:
                offset = snapshots.at_join.offset
            metadata = dict(self.members[name].metadata(f"http://{name}:8083/", offset))
            said[name] = metadata[self.protocol.wire_name]
        return LeaderElection(
            leader=self.leads,
            protocol=self.protocol,
            generation=self.generation,
            last_completed=self.members[self.leads].last_generation,
            members=said,
        )

    def ask(
        self, election: LeaderElection, snapshots: ConfiguredWorkSnapshots, *, new_leader: bool
    ) -> None:
        self.rounds.append(
            {
                "now ms": self.now_ms,
                "new leader": new_leader,
                "leader": election.leader,
                "protocol": election.protocol.wire_name,
                "generation": election.generation,
                "last completed": election.last_completed,
                "joined with": plain(snapshots.at_join),
                "newest": plain(snapshots.newest),
                "members": {name: said.hex() for name, said in election.members.items()},
            }
        )

    @property
    def question(self) -> dict[str, Any]:
        return {"delay max ms": self.delay_max_ms, "rounds": self.rounds}


def plain(configured: ConfiguredWork) -> dict[str, Any]:
    return {"offset": configured.offset, "task counts": dict(configured.task_counts)}


@dataclass(slots=True)
class Follower:
    """One member and the answers that it gets, whatever sense they make together."""

    rng: random.Random
    offers: ConnectProtocol
    steps: list[dict[str, Any]] = field(default_factory=list)
    expected: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def made(cls, seed: int) -> Follower:
        rng = random.Random(seed)
        follower = cls(rng, rng.choice([V0, V1, V2, V2]))
        one, spoken = MemberAssignment.create_initial(follower.offers), follower.offers
        for generation in range(1, 15):
            if rng.random() < 0.2:
                spoken = rng.choice(follower.offers.list_supported_protocols())
            one = follower.step(one, spoken, generation)
        return follower

    def some(self) -> ConnectorsAndTasks:
        tasks = [ConnectorTaskId(f"c{self.rng.randint(0, 4)}", at) for at in range(4)]
        names = tuple(f"c{at}" for at in range(5) if self.rng.random() < 0.3)
        return ConnectorsAndTasks(connectors=names, tasks=tuple(self.rng.sample(tasks, 2)))

    def step(
        self, one: MemberAssignment, spoken: ConnectProtocol, generation: int
    ) -> MemberAssignment:
        failed = self.rng.random() < 0.2
        told = ConnectAssignment(
            error=connect_protocol.CONFIG_MISMATCH if failed else connect_protocol.NO_ERROR,
            leader="p",
            leader_url="http://p/",
            config_offset=generation,
            assigned=connectors_and_tasks.NO_WORK if failed else self.some(),
            revoked=one.assigned_work if self.rng.random() < 0.3 else connectors_and_tasks.NO_WORK,
            delay_ms=self.rng.choice([0, 0, 77]),
        )
        answer = connect_protocol.encode_assignment(told, spoken)
        said = dict(one.metadata("http://w/", generation))
        found = one.apply_assignment(answer, protocol_name=spoken.wire_name, generation=generation)
        self.steps.append(
            {
                "offset": generation,
                "generation": generation,
                "protocol": spoken.wire_name,
                "answer": answer.hex(),
            }
        )
        self.expected.append(
            {
                "said": said,
                "revoked before": names(one.work_to_stop_before_join()),
                "revoked": names(
                    found.work_to_stop if spoken is not V0 else connectors_and_tasks.NO_WORK
                ),
                "rejoins": found.member.rejoin_needed,
            }
        )
        return found.member

    @property
    def question(self) -> dict[str, Any]:
        return {"offers": self.offers.name.lower(), "url": "http://w/", "steps": self.steps}


def names(has: ConnectorsAndTasks) -> list[str]:
    return sorted(
        [f"connector {each}" for each in has.connectors] + [f"task {each}" for each in has.tasks]
    )


@dataclass(slots=True, kw_only=True)
class Answers:
    groups: list[Group]
    leaders: list[list[Any]]
    followers: list[Follower]
    members: list[list[Any]]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """One JVM answers all."""
    groups = [Group.made(seed) for seed in range(LEADER_CASES)]
    followers = [Follower.made(seed) for seed in range(MEMBER_CASES)]
    found = java_assignors.ask(
        tmp_path_factory.mktemp("oracle"),
        leaders=[each.question for each in groups],
        members=[each.question for each in followers],
    )
    return Answers(
        groups=groups, leaders=found["leaders"], followers=followers, members=found["members"]
    )


def said_by(assignment: ConnectAssignment | None) -> Any:
    """Java writes entries in the order of a hash map, so only sets are compared."""
    if assignment is None:
        return None
    told = assignment
    return (
        (told.error, told.leader, told.leader_url, told.config_offset, told.delay_ms),
        (names(told.assigned), names(told.revoked)),
    )


def differences(expected: Mapping[str, bytes], found: Mapping[str, str]) -> list[str]:
    """Members whom Java tells something else, or in another version."""
    if set(expected) != set(found):
        return [f"answered {sorted(found)}, not {sorted(expected)}"]
    wrong = []
    for name, answer in expected.items():
        ours, theirs = answer, bytes.fromhex(found[name])
        one, other = (said_by(connect_protocol.decode_assignment(each)) for each in (ours, theirs))
        if one != other or ours[:2] != theirs[:2] or len(ours) != len(theirs):
            wrong.append(f"{name}: {other}, not {one}")
    return wrong


def test_java_leaders_answer_what_ours_answer(java: Answers) -> None:
    for seed, (group, answers) in enumerate(zip(java.groups, java.leaders, strict=True)):
        for number, (expected, found) in enumerate(zip(group.expected, answers, strict=True)):
            assert differences(expected, found) == [], f"history {seed}, round {number}"


def test_the_histories_have_everything_in_them(java: Answers) -> None:
    """Each kind of answer, and each way in which a leader may be behind, many times."""
    told = [
        connect_protocol.decode_assignment(answer)
        for group in java.groups
        for answers in group.expected
        for answer in answers.values()
    ]
    assert len(told) > 5000
    delays = {each.delay_ms for each in told}
    assert {0, 1, 40, 1600, 60_000, 300_000} <= delays
    assert sum(each.failed for each in told) > 100
    assert sum(bool(each.revoked) for each in told) > 500
    assert sum(bool(each.assigned) for each in told) > 500
    rounds = [each for group in java.groups for each in group.rounds]
    assert {each["protocol"] for each in rounds} == {"default", "compatible", "sessioned"}
    assert sum(each["newest"] != each["joined with"] for each in rounds) > 100


def test_java_members_say_and_stop_what_ours_say_and_stop(java: Answers) -> None:
    for seed, (follower, answers) in enumerate(zip(java.followers, java.members, strict=True)):
        for number, (expected, found) in enumerate(zip(follower.expected, answers, strict=True)):
            where = f"member {seed}, step {number}"
            for key in ("revoked before", "revoked", "rejoins"):
                assert found[key] == expected[key], where
            assert set(found["said"]) == set(expected["said"]), where
            for name, ours in expected["said"].items():
                theirs = bytes.fromhex(found["said"][name])
                assert theirs[:2] == ours[:2], where
                one, other = (connect_protocol.decode_metadata(each) for each in (ours, theirs))
                assert (one.url, one.config_offset) == (other.url, other.config_offset), where
                assert said_by(one.allocation) == said_by(other.allocation), where


def test_a_planted_difference_is_found(java: Answers) -> None:
    """One task of one answer goes to another member, or an answer is missing."""
    expected = next(
        answers
        for group in java.groups
        for answers in group.expected
        if len(answers) > 1
        and any(
            connect_protocol.decode_assignment(each).assigned.tasks for each in answers.values()
        )
    )
    found = {name: answer.hex() for name, answer in expected.items()}
    assert differences(expected, found) == []
    told = {name: connect_protocol.decode_assignment(answer) for name, answer in expected.items()}
    name = next(each for each in expected if told[each].assigned.tasks)
    one = told[name]
    fewer = ConnectorsAndTasks(connectors=one.assigned.connectors, tasks=one.assigned.tasks[1:])
    version = next(each for each in ConnectProtocol if each.version == expected[name][1])
    changed = connect_protocol.encode_assignment(dataclasses.replace(one, assigned=fewer), version)
    damaged = {**found, name: changed.hex()}
    assert [each[0] for each in differences(expected, damaged)] == [name]
    del damaged[name]
    assert len(differences(expected, damaged)) == 1
