"""Looking ahead at what a move needs later."""

from __future__ import annotations

import fcntl
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from connect_runtime.base import errors, ids
from connect_runtime.core.state import cluster_config, status_log
from mm2.app.failover import beforehand, journal_file, stopping
from mm2.app.looks import workers
from mm2.app.settings import settings as app_settings
from mm2.core.failover import journal, orders, readiness, steps
from mm2.core.preflight import rights

WANTED = orders.Wanted(origin="east", destination="west", kind=orders.Kind.PLANNED)
HERE = ids.TopicPartition("orders", 0)
ALL = rights.Held(operations=frozenset({"READ", "WRITE"}))


@dataclass
class Rights:
    held: Mapping[str, rights.Held] = field(default_factory=dict)
    failure: errors.ConnectError | None = None
    closed: bool = False

    def of_topics(self, names: Sequence[str], timeout_s: float) -> Mapping[str, rights.Held]:
        if self.failure is not None:
            raise self.failure
        return {name: self.held.get(name, ALL) for name in names}

    of_groups = of_topics

    def close(self) -> None:
        self.closed = True


def nobody() -> workers.Workers:
    return workers.Workers(
        config=cluster_config.EMPTY, statuses=status_log.StatusLog().snapshot(), hosts=()
    )


def look(
    path: pathlib.Path, wanted: orders.Wanted = WANTED, *, silent: bool = False, **given: Any
) -> readiness.Ready:
    usual: dict[str, Any] = {
        "flow": "east->west",
        "config_topic": "configs",
        "workers": nobody,
        "clusters": lambda silent: orders.Clusters(
            origin="" if silent else "idE", destination="idW"
        ),
        "transactional_id": lambda each: f"mm2-{each}",
        "denied_ids": lambda names: (),
        "as_worker": Rights,
        "as_admin": Rights,
        "known_as": {},
        "hooks": {},
        "timeout_s": 5.0,
    }
    found = beforehand.Beforehand(**usual | given)
    return found.look(wanted, path, groups=["mail", "billing"], partitions=[HERE], silent=silent)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "move.jsonl"


def test_what_is_asked_and_told(path):
    asked: list[Sequence[str]] = []

    def denied(names: Sequence[str]) -> Sequence[str]:
        asked.append(names)
        return names

    found = look(path, denied_ids=denied)
    assert asked == [["mm2-orders-0"]]
    assert found.denied_ids == ["mm2-orders-0"]
    assert (found.connectors, found.may_stop, found.denied_groups) == ([], True, [])
    assert (found.no_journal, found.no_export, found.no_hooks, found.others) == ("", "", {}, [])
    assert found.clusters == orders.Clusters(origin="idE", destination="idW")
    assert look(path, silent=True).clusters == orders.Clusters(destination="idW")


NOTHING = rights.Held(operations=frozenset())
UNTOLD = rights.Held(operations=None)


@pytest.mark.parametrize(
    ("held", "may"),
    [
        (rights.Held(operations=frozenset({"READ"})), False),
        (rights.Held(operations=frozenset({"ALL"})), True),
        (rights.Held(operations=frozenset(), exists=False), False),
        (UNTOLD, None),
    ],
)
def test_the_right_to_stop_is_that_to_write_the_config_topic(path, held, may):
    asking = Rights({"configs": held})
    assert look(path, as_worker=lambda: asking).may_stop is may
    assert asking.closed


def test_groups_that_may_not_be_written_are_named(path):
    asking = Rights({"billing": NOTHING, "mail": UNTOLD})
    assert look(path, as_admin=lambda: asking).denied_groups == ["billing"]
    assert asking.closed


def test_what_does_not_answer_is_told_as_not_looked_at(path):
    def away(*_: object) -> Any:
        raise errors.RetriableError("node 2 is away")

    failing = Rights(failure=errors.RetriableError("node 3 is away"))
    found = look(path, workers=away, as_worker=lambda: failing, clusters=away)
    assert found.unlooked == ["node 2 is away", "node 3 is away", "node 2 is away"]
    assert (found.connectors, found.may_stop) == (stopping.STOPPED, None)


def test_a_refusal_is_told_at_once(path):
    failing = Rights(failure=errors.FatalError("wrong password"))
    with pytest.raises(errors.FatalError, match="wrong password"):
        look(path, as_admin=lambda: failing)


def test_hooks_that_cannot_be_run_are_told_where_the_move_takes_them(path):
    hooks = {
        "stop-producers": app_settings.Hook(command=("/nowhere/stop", "all")),
        "start-consumers": app_settings.Hook(command=("true",)),
    }
    assert look(path, hooks=hooks).no_hooks == {
        "stop-producers": "there is no command /nowhere/stop"
    }
    emergency = orders.Wanted(origin="east", destination="west", kind=orders.Kind.EMERGENCY)
    assert look(path, emergency, hooks=hooks).no_hooks == {}


def test_an_export_has_to_have_a_place(tmp_path):
    assert beforehand.why_no_export("") == ""
    assert beforehand.why_no_export(str(tmp_path / "tail.jsonl")) == ""
    (tmp_path / "there").touch()
    assert "is there already" in beforehand.why_no_export(str(tmp_path / "there"))
    assert "no folder" in beforehand.why_no_export(str(tmp_path / "none" / "tail.jsonl"))


def begun(path: pathlib.Path, origin: str, destination: str, *, done: bool = False) -> str:
    kind = orders.Kind.EMERGENCY
    wanted = orders.Wanted(origin=origin, destination=destination, kind=kind)
    about = journal.Begun(wanted=wanted, flow=f"{origin}->{destination}")
    text = journal.begun(about, at_ms=1)
    for step in about.order if done else about.order[:2]:
        text += journal.done(step, {}, at_ms=2)
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
        found = journal_file.others(tmp_path, ("east", "west"), but=path)
    assert [(each.path, each.busy) for each in found] == [(forth, False), (back, True)]
    assert found[1].wanted.origin == "west"


def test_where_no_journal_can_be_begun_it_is_said(path, tmp_path):
    assert journal_file.why_not(path) == ""
    path.touch()
    assert "is there already" in journal_file.why_not(path)
    assert "there is no folder" in journal_file.why_not(tmp_path / "none" / "move.jsonl")


def test_the_order_of_a_move_says_which_hooks_it_takes():
    hooks = {"stop-producers": app_settings.Hook(command=("/nowhere/stop",))}
    assert beforehand.why_no_hooks(hooks, [steps.Step.FENCE]) == {}
