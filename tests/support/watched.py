"""The connectors of `plugins/watched`: configured, driven over REST, and what they noted."""

from __future__ import annotations

import collections
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka
from tests.support.connect_workers import Worker

WAIT_S = 40.0
_INTERVAL_S = 0.2
SOURCE = "watched.WatchedSource"
SINK = "watched.WatchedSink"
PIPELINE = "watched.WatchedPipeline"


class Watched:
    """One connector: its configuration, the file of its notes, and what opens its gate."""

    def __init__(self, name: str, folder: Path, **config: str) -> None:
        self.name = name
        self._notes = folder / f"{name}.notes"
        self._notes.touch()
        self.gate = folder / f"{name}.gate"
        self._config = {name.replace("_", "."): value for name, value in config.items()}

    def config(self, **more: str | None) -> dict[str, str]:
        """As it was made, with `more` over it (`_` for `.`); None leaves a key out."""
        given = {
            "connector.class": SOURCE,
            "tasks.max": "1",
            "notes": str(self._notes),
            "gate": str(self.gate),
            **self._config,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        return {name: value for name, value in given.items() if value is not None}

    def open_gate(self) -> None:
        self.gate.touch()

    def notes(self, place: str | None = None, who: str | None = None) -> list[dict[str, Any]]:
        """All that was noted there, in order."""
        found = [json.loads(line) for line in self._notes.read_text().splitlines()]
        return [
            each for each in found if place in (None, each["place"]) and who in (None, each["who"])
        ]

    def count(self, place: str, who: str | None = None) -> int:
        return len(self.notes(place, who))

    def counts(self) -> collections.Counter[str]:
        """How often each place was come to; tasks have their number behind it: `task.start:1`."""
        return collections.Counter(
            f"{each['place']}:{each['who']}" if each["who"] else each["place"]
            for each in self.notes()
        )


Make = Callable[..., Watched]


@contextlib.contextmanager
def connectors(
    on: SandboxCluster,
    topic: Callable[..., str],
    *,
    worker: Worker,
    folder: Path,
) -> Iterator[Make]:
    """Makes connectors, each with a topic of its own and named as that; deleted in the end."""
    made: list[Watched] = []

    def make(**config: str) -> Watched:
        name = kafka.create_topic(on.client_properties(), topic(), partitions=1)
        made.append(Watched(name, folder, **{"topic": name, **config}))
        return made[-1]

    yield make
    for each in made:
        each.open_gate()
        if worker.runs_process and each.name in worker.get("/connectors"):
            delete(worker, each)


def status(worker: Worker, name: str) -> tuple[str, list[str]]:
    """The connector's state and its tasks'; "" without a status."""
    answer = worker.ask("GET", f"/connectors/{name}/status")
    if answer.status_code == 404:
        return "", []
    told = answer.json()
    return told["connector"]["state"], [each["state"] for each in told["tasks"]]


def reaches(worker: Worker, name: str, state: str, tasks: int = 0, as_: str | None = None) -> None:
    """`tasks` of them `as_`, or as the connector is."""
    expected = state, [as_ or state] * tasks
    eventually.eventually(
        lambda: status(worker, name) == expected,
        WAIT_S,
        lambda: f"{name} is {expected}, not {status(worker, name)}\n{worker.log_text()}",
        interval_s=_INTERVAL_S,
    )


def has_no_tasks(worker: Worker, name: str) -> None:
    assert worker.get(f"/connectors/{name}")["tasks"] == []
    assert worker.get(f"/connectors/{name}/tasks") == []


def create(worker: Worker, one: Watched, state: str, **more: str | None) -> None:
    body = {"name": one.name, "config": one.config(**more), "initial_state": state}

    def created() -> bool:
        answer = worker.ask("POST", "/connectors", body)
        assert answer.status_code == 201, answer.text
        return True

    eventually.eventually(created, WAIT_S, interval_s=_INTERVAL_S)


def tell(worker: Worker, one: Watched, what: str, times: int = 1) -> None:
    for _ in range(times):
        answer = worker.ask("PUT", f"/connectors/{one.name}/{what}")
        assert answer.is_success, answer.text


def delete(worker: Worker, one: Watched) -> None:
    def deleted() -> bool:
        answer = worker.ask("DELETE", f"/connectors/{one.name}")
        assert answer.status_code == 204, answer.text
        return True

    eventually.eventually(deleted, WAIT_S, interval_s=_INTERVAL_S)

    def gone() -> bool:  # soon, where it was the leader that heard of it first
        return worker.ask("GET", f"/connectors/{one.name}").status_code == 404

    eventually.eventually(gone, WAIT_S, interval_s=_INTERVAL_S)
    eventually.eventually(
        lambda: status(worker, one.name) == ("", []), WAIT_S, interval_s=_INTERVAL_S
    )
