"""Whole workers of Java and of ours in one group: each leads the other, serves, dies, comes again.

Either kind gets the same requests, whether it leads or follows, and the other is checked to do what
it was asked through it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from connect_runtime.group.connect_protocol import ConnectProtocol
from tests.support import eventually, idle_source
from tests.support.connect_workers import Group, Kind, Worker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]

JAVA, OURS = Kind.JAVA, Kind.OURS
WAIT_S = 240.0
DELAY_MS = 3000
CONNECTORS = ("c0", "c1", "c2")
TASKS = 2
FULL = pytest.mark.full
CASES = pytest.mark.parametrize(
    ("speaks", "first"),
    [
        pytest.param(ConnectProtocol.SESSIONED, JAVA),
        pytest.param(ConnectProtocol.SESSIONED, OURS, marks=FULL),
        *(
            pytest.param(speaks, first, marks=FULL)
            for speaks in (ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE)
            for first in (JAVA, OURS)
        ),
    ],
    ids=lambda each: each.name.lower(),
)


class Pair:
    """A leader of one kind and a follower of the other."""

    def __init__(self, group: Group, first: Kind) -> None:
        self.group = group
        self.leader = group.start("first", first)
        for name in CONNECTORS:
            self.leader.configure(name, idle_source.config(tasks=TASKS))
        self.until(lambda: self.share([self.leader]), "the leader runs all")
        self.follower = group.start("second", OURS if first is JAVA else JAVA)
        self.until(lambda: self.share([self.leader, self.follower]), "both run half of it")

    def until(self, holds: Callable[[], object], what: str) -> None:
        eventually.eventually(
            lambda: bool(holds()),
            WAIT_S,
            lambda: f"{what}: {self.owners()}; {self.group.log_texts()}",
            interval_s=0.2,
        )

    def owners(self) -> dict[str, tuple[str, str]]:
        """Of every connector and task, who says that it is how."""
        for worker in (self.group[name] for name in self.group.workers):
            if not worker.healthy():
                continue
            found: dict[str, tuple[str, str]] = {}
            for name, each in worker.get("/connectors?expand=status").items():
                status = each["status"]
                told = [(name, status["connector"])]
                told += [(f"{name}-{one['id']}", one) for one in status["tasks"]]
                found |= {item: (one["worker_id"], one["state"]) for item, one in told}
            return found
        return {}

    def share(self, workers: list[Worker], items: int = len(CONNECTORS) * (TASKS + 1)) -> bool:
        """Whether these run so many connectors and tasks, evenly."""
        owners = self.owners()
        if len(owners) != items or {state for _, state in owners.values()} != {"RUNNING"}:
            return False
        counts = [sum(owner == each.address for owner, _ in owners.values()) for each in workers]
        return sum(counts) == items and max(counts) - min(counts) <= 2

    def runs_on(self, item: str, worker: Worker) -> bool:
        return self.owners().get(item) == (worker.address, "RUNNING")

    def owned_by(self, worker: Worker, *, tasks: bool) -> str:
        """One item of its kind that this worker runs."""
        owned = [item for item, (owner, _) in self.owners().items() if owner == worker.address]
        return next(item for item in sorted(owned) if ("-" in item) is tasks)


def asked(worker: Worker, method: str, path: str, body=None, *, status: int):
    answer = worker.ask(method, path, body)
    assert answer.status_code == status, (method, path, answer.status_code, answer.text)
    return answer.json() if answer.content else None


def check_requests(pair: Pair, asker: Worker) -> None:
    """What is asked of one worker happens, whoever must do it."""
    config = idle_source.config(tasks=1)
    created = asked(asker, "POST", "/connectors", {"name": "more", "config": config}, status=201)
    assert created["type"] == "source"
    pair.until(lambda: asker.runs("more", tasks=1), "a new connector runs")
    for name in (*CONNECTORS, "more"):  # one of them runs where its leader is not
        asked(asker, "PUT", f"/connectors/{name}/config", idle_source.config(tasks=3), status=200)
    for name in (*CONNECTORS, "more"):
        pair.until(functools.partial(asker.runs, name, tasks=3), f"{name} has more tasks")
    asked(asker, "PUT", "/connectors/more/pause", status=202)
    pair.until(
        lambda: (
            {state for item, (_, state) in pair.owners().items() if "more" in item} == {"PAUSED"}
        ),
        "it is paused",
    )
    asked(asker, "PUT", "/connectors/more/resume", status=202)
    pair.until(lambda: asker.runs("more", tasks=3), "it is resumed")
    for worker in (pair.leader, pair.follower):
        task = pair.owned_by(worker, tasks=True)
        name, _, number = task.rpartition("-")
        asked(asker, "POST", f"/connectors/{name}/tasks/{number}/restart", status=204)
        connector = pair.owned_by(worker, tasks=False)
        asked(asker, "POST", f"/connectors/{connector}/restart", status=204)
        path = f"/connectors/{connector}/restart?includeTasks=true&onlyFailed=false"
        asked(asker, "POST", path, status=202)
        pair.until(functools.partial(asker.runs, connector, tasks=3), "it is restarted")
    asked(asker, "PUT", "/connectors/more/stop", status=204)
    pair.until(
        lambda: (
            pair.owners().get("more", ("", ""))[1] == "STOPPED"
            and not asked(asker, "GET", "/connectors/more/tasks", status=200)
        ),
        "it is stopped",
    )
    patched = asked(asker, "PATCH", "/connectors/more/config", {"note": "n"}, status=200)
    assert patched["config"]["note"] == "n"
    asked(asker, "DELETE", "/connectors/more", status=204)
    pair.until(lambda: not any("more" in item for item in pair.owners()), "it is gone")
    for name in CONNECTORS:
        asked(
            asker, "PUT", f"/connectors/{name}/config", idle_source.config(tasks=TASKS), status=200
        )
    pair.until(lambda: pair.share([pair.leader, pair.follower]), "all is as before")


@CASES
def test_they_share_serve_and_survive(connect_group, first, speaks):
    group = connect_group(
        settings={
            "connect.protocol": speaks.name.lower(),
            "scheduled.rebalance.max.delay.ms": str(DELAY_MS),
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "plugin.path": str(idle_source.PLUGIN_PATH),
        }
    )
    pair = Pair(group, first)
    for asker in (pair.follower, pair.leader):
        check_requests(pair, asker)
    if speaks is ConnectProtocol.SESSIONED:  # before it such a request was obeyed
        unsigned = pair.leader.ask("POST", "/connectors/c0/tasks", [])
        assert unsigned.status_code == 400, unsigned.text
        assert "signature" in unsigned.text
    pair.leader.sigkill()
    pair.until(lambda: pair.share([pair.follower]), "the follower leads, and runs all")
    pair.leader.start()
    pair.until(lambda: pair.share([pair.leader, pair.follower]), "both share again")
    pair.leader, pair.follower = pair.follower, pair.leader
    check_requests(pair, pair.follower)
    assert pair.follower.stop() in (0, 143)
    pair.until(lambda: pair.share([pair.leader]), "one left, and the other runs all")
