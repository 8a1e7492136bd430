"""Looking ahead at what a move needs later."""

from __future__ import annotations

import fcntl
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.status_topic import StatusTopicState
from mm2.clusters.connect_group_state import ConnectGroupSnapshot
from mm2.config.mm2_settings import HookCommand
from mm2.failover import failover_journal, failover_journal_file, flow_stop, readiness_checks
from mm2.failover.failover_journal import FailoverIdentity
from mm2.failover.failover_request import ClusterIds, FailoverKind, FailoverRequest
from mm2.failover.failover_steps import FailoverStep
from mm2.failover.readiness import FailoverReadiness
from mm2.failover.readiness_checks import ReadinessChecks
from mm2.kafka.kafka_client_interfaces import AuthorizedOperations

WANTED = FailoverRequest(origin="east", destination="west", kind=FailoverKind.PLANNED)
HERE = TopicPartition("orders", 0)
ALL = AuthorizedOperations(operations=frozenset({"READ", "WRITE"}))


@dataclass
class Rights:
    held: Mapping[str, AuthorizedOperations] = field(default_factory=dict)
    failure: ConnectError | None = None
    closed: bool = False

    def read_topic_operations(
        self, names: Sequence[str], timeout_s: float
    ) -> Mapping[str, AuthorizedOperations]:
        if self.failure is not None:
            raise self.failure
        return {name: self.held.get(name, ALL) for name in names}

    read_group_operations = read_topic_operations

    def close(self) -> None:
        self.closed = True


def nobody() -> ConnectGroupSnapshot:
    return ConnectGroupSnapshot(
        config=cluster_config_state.EMPTY_CONFIG_STATE,
        statuses=StatusTopicState().snapshot(),
        hosts=(),
    )


def look(
    path: pathlib.Path, wanted: FailoverRequest = WANTED, *, silent: bool = False, **given: Any
) -> FailoverReadiness:
    usual: dict[str, Any] = {
        "flow": "east->west",
        "config_topic": "configs",
        "read_connect_group": nobody,
        "fetch_cluster_ids": lambda silent: ClusterIds(
            origin="" if silent else "idE", destination="idW"
        ),
        "transactional_id": lambda each: f"mm2-{each}",
        "find_denied_ids": lambda names: (),
        "connect_as_worker": Rights,
        "connect_as_admin": Rights,
        "commands_by_login": {},
        "hooks": {},
        "timeout_s": 5.0,
    }
    found = ReadinessChecks(**usual | given)
    return found.collect_readiness(
        wanted, path, groups=["mail", "billing"], partitions=[HERE], silent=silent
    )


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "move.jsonl"


def test_what_is_asked_and_told(path):
    asked: list[Sequence[str]] = []

    def denied(names: Sequence[str]) -> Sequence[str]:
        asked.append(names)
        return names

    found = look(path, find_denied_ids=denied)
    assert asked == [["mm2-orders-0"]]
    assert found.denied_ids == ["mm2-orders-0"]
    assert (found.connectors, found.may_stop, found.denied_groups) == ([], True, [])
    assert (
        found.journal_error,
        found.export_error,
        found.hook_errors,
        found.unfinished_failovers,
    ) == (
        "",
        "",
        {},
        [],
    )
    assert found.clusters == ClusterIds(origin="idE", destination="idW")
    assert look(path, silent=True).clusters == ClusterIds(destination="idW")


NOTHING = AuthorizedOperations(operations=frozenset())
UNTOLD = AuthorizedOperations(operations=None)


@pytest.mark.parametrize(
    ("held", "may"),
    [
        (AuthorizedOperations(operations=frozenset({"READ"})), False),
        (AuthorizedOperations(operations=frozenset({"ALL"})), True),
        (AuthorizedOperations(operations=frozenset(), exists=False), False),
        (UNTOLD, None),
    ],
)
def test_the_right_to_stop_is_that_to_write_the_config_topic(path, held, may):
    asking = Rights({"configs": held})
    assert look(path, connect_as_worker=lambda: asking).may_stop is may
    assert asking.closed


def test_groups_that_may_not_be_written_are_named(path):
    asking = Rights({"billing": NOTHING, "mail": UNTOLD})
    assert look(path, connect_as_admin=lambda: asking).denied_groups == ["billing"]
    assert asking.closed


def test_what_does_not_answer_is_told_as_not_looked_at(path):
    def away(*_: object) -> Any:
        raise RetriableError("node 2 is away")

    failing = Rights(failure=RetriableError("node 3 is away"))
    found = look(
        path, read_connect_group=away, connect_as_worker=lambda: failing, fetch_cluster_ids=away
    )
    assert found.unchecked == ["node 2 is away", "node 3 is away", "node 2 is away"]
    assert (found.connectors, found.may_stop) == (flow_stop.STOPPED_CONNECTORS, None)


def test_a_refusal_is_told_at_once(path):
    failing = Rights(failure=FatalError("wrong password"))
    with pytest.raises(FatalError, match="wrong password"):
        look(path, connect_as_admin=lambda: failing)


def test_hooks_that_cannot_be_run_are_told_where_the_move_takes_them(path):
    hooks = {
        "stop-producers": HookCommand(command=("/nowhere/stop", "all")),
        "start-consumers": HookCommand(command=("true",)),
    }
    assert look(path, hooks=hooks).hook_errors == {
        "stop-producers": "the command /nowhere/stop does not exist"
    }
    emergency = FailoverRequest(origin="east", destination="west", kind=FailoverKind.EMERGENCY)
    assert look(path, emergency, hooks=hooks).hook_errors == {}


def test_an_export_has_to_have_a_place(tmp_path):
    assert readiness_checks.explain_unwritable_export("") == ""
    assert readiness_checks.explain_unwritable_export(str(tmp_path / "tail.jsonl")) == ""
    (tmp_path / "there").touch()
    assert "already exists" in readiness_checks.explain_unwritable_export(str(tmp_path / "there"))
    assert "not a writable directory" in readiness_checks.explain_unwritable_export(
        str(tmp_path / "none" / "tail.jsonl")
    )


def begun(path: pathlib.Path, origin: str, destination: str, *, done: bool = False) -> str:
    kind = FailoverKind.EMERGENCY
    wanted = FailoverRequest(origin=origin, destination=destination, kind=kind)
    about = FailoverIdentity(request=wanted, flow=f"{origin}->{destination}")
    text = failover_journal.encode_begun_entry(about, at_ms=1)
    for step in about.steps if done else about.steps[:2]:
        text += failover_journal.encode_step_done(step, {}, at_ms=2)
    path.write_text(text)
    return str(path)


def test_journals_of_moves_between_the_same_clusters_are_found(path, tmp_path):
    forth = begun(tmp_path / "a.jsonl", "east", "west")
    back = begun(tmp_path / "b.jsonl", "west", "east")
    begun(tmp_path / "done.jsonl", "east", "west", done=True)
    begun(tmp_path / "other.jsonl", "east", "north")
    begun(path, "east", "west")  # its own
    (tmp_path / "tail.jsonl").write_text('{"v":1,"cluster":"east","move":"x"}\n')
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\n")
    (tmp_path / "folder.jsonl").mkdir()
    with open(back, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = failover_journal_file.find_unfinished_failovers(
            tmp_path, ("east", "west"), excluded=path
        )
    assert [(each.path, each.busy) for each in found] == [(forth, False), (back, True)]
    assert found[1].request.origin == "west"


def test_where_no_journal_can_be_begun_it_is_said(path, tmp_path):
    assert failover_journal_file.explain_unusable_path(path) == ""
    path.touch()
    assert "already exists" in failover_journal_file.explain_unusable_path(path)
    assert "does not exist" in failover_journal_file.explain_unusable_path(
        tmp_path / "none" / "move.jsonl"
    )


def test_the_order_of_a_move_says_which_hooks_it_takes():
    hooks = {"stop-producers": HookCommand(command=("/nowhere/stop",))}
    assert readiness_checks.explain_missing_hooks(hooks, [FailoverStep.FENCE]) == {}
