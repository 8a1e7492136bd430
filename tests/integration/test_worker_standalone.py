"""Whole workers on their own. Java: StandaloneWorkerIntegrationTest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import connect_workers, eventually, kafka, watched
from tests.support.connect_workers import Kind, Mode, Worker
from tests.support.watched import Watched

pytestmark = pytest.mark.integration

PACKAGE = "connect_runtime.worker"
READY = "Worker has completed startup and is ready to handle requests."


@contextlib.contextmanager
def standalone(
    east: SandboxCluster, folder: Path, connectors: Sequence[Watched] = ()
) -> Iterator[Worker]:
    """Not started. `connectors` are on its command line."""
    worker = Worker(
        Kind.OURS,
        {
            **east.client_properties(),
            "offset.storage.file.filename": str(folder / "offsets"),
        },
        folder=folder,
        mode=Mode.STANDALONE,
        connectors=[{"name": each.name, **each.config()} for each in connectors],
    )
    with contextlib.closing(worker):
        yield worker


@pytest.fixture(scope="module")
def worker(east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with standalone(east, tmp_path_factory.mktemp("worker")) as made:
        yield made.start()


def levels(worker: Worker) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = worker.get("/admin/loggers")
    return found


def put_level(worker: Worker, scope: str, level: str) -> httpx.Response:
    answer = worker.ask("PUT", f"/admin/loggers/{PACKAGE}{scope}", {"level": level})
    assert answer.is_success, answer.text
    return answer


@pytest.mark.parametrize(
    ("scope", "level"), [("", "TRACE"), ("?scope=worker", "ERROR"), ("?scope=cluster", "WARN")]
)
def test_levels_below_a_name_change_and_no_others(worker: Worker, scope: str, level: str) -> None:
    """testDynamicLogging; what is so already is not modified."""
    known = put_level(worker, "", "DEBUG").json()
    assert PACKAGE in known
    assert len(known) > 1
    assert all(each == PACKAGE or each.startswith(f"{PACKAGE}.") for each in known)
    before = levels(worker)
    answer = put_level(worker, scope, level)
    if scope == "?scope=cluster":
        assert (answer.status_code, answer.content) == (204, b"")
    else:
        assert answer.json() == known

    def are_set() -> bool:
        now = levels(worker)
        return all(now[name]["level"] == level for name in known)

    eventually.eventually(are_set, watched.WAIT_S)  # with that scope it is only asked for
    after = levels(worker)
    assert all(after[name]["last_modified"] > before[name]["last_modified"] for name in known)
    assert {name: each for name, each in after.items() if name not in known} == {
        name: each for name, each in before.items() if name not in known
    }
    put_level(worker, scope, level)
    assert levels(worker) == after


def test_a_connector_may_be_made_stopped(
    east: SandboxCluster,
    topic: Callable[..., str],
    worker: Worker,
    tmp_path: Path,
) -> None:
    """testCreateConnectorWithStoppedInitialState."""
    with watched.connectors(east, topic, worker=worker, folder=tmp_path) as make:
        one = make(tasks_max="4")
        watched.create(worker, one, "STOPPED")
        watched.reaches(worker, one.name, "STOPPED")
        watched.has_no_tasks(worker, one.name)
        watched.tell(worker, one, "resume")
        watched.reaches(worker, one.name, "RUNNING", 4)


@contextlib.contextmanager
def blocked(
    east: SandboxCluster, topic: str, folder: Path, place: str
) -> Iterator[tuple[Worker, Watched]]:
    """A worker that was started with a connector which stands still there; afterwards it runs."""
    name = kafka.create_topic(east.client_properties(), topic, partitions=1)
    one = Watched(name, folder, topic=name, block=place)
    with standalone(east, folder, [one]) as worker:
        worker.launch()
        eventually.eventually(lambda: one.count(place) == 1, connect_workers.START_S)
        yield worker, one
        one.open_gate()
        watched.reaches(worker, one.name, "RUNNING", 1)


def test_it_is_healthy_while_a_connector_begins(
    east: SandboxCluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    """testHealthCheck; but Java's worker still starts up, says 503, until its connectors run."""
    with blocked(east, topic(), tmp_path, "connector.start") as (worker, _):
        answer = worker.await_ready().ask("GET", "/health")
        assert (answer.status_code, answer.json()["message"]) == (200, READY)


def test_it_is_unwell_while_a_connector_does_not_say_what_its_tasks_are(
    east: SandboxCluster, topic: Callable[..., str], tmp_path: Path
) -> None:
    """testHealthCheck."""
    with blocked(east, topic(), tmp_path, "connector.task_configs") as (worker, one):
        answer = worker.ask("GET", "/health")
        assert answer.status_code == 500
        assert f"generating task configs for connector {one.name}" in answer.json()["message"]
