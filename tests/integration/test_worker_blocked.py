"""Plugins that never return hold up themselves alone. Java: BlockingConnectorTest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka, watched
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.watched import Make

pytestmark = pytest.mark.integration

OURS = Kind.OURS
IMPATIENT_S = 2.0


@pytest.fixture(scope="module")
def beginning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The gate of `SlowToBegin` and `SlowToDefine`, open unless a test closes it."""
    gate = tmp_path_factory.mktemp("gates") / "gate"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WATCHED_CONFIG_GATE", str(gate))
        yield gate


@pytest.fixture(scope="module")
def group(
    east: SandboxCluster, beginning: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Group]:
    """One worker, for all tests of this module; its tasks may take two seconds to stop."""
    with Group(
        east.client_properties(),
        "worker-blocked",
        folder=tmp_path_factory.mktemp("workers"),
        settings={"task.shutdown.graceful.timeout.ms": "2000"},
    ) as made:
        made.start("one", OURS)
        yield made


def others_work(east: SandboxCluster, worker: Worker, make: Make) -> None:
    """A connector that is made now runs, writes and commits."""
    normal = make(messages="20", every_ms="5")
    worker.configure(normal.name, normal.config())
    watched.reaches(worker, normal.name, "RUNNING", 1)
    eventually.eventually(
        lambda: len(kafka.read_topic(east.client_properties(), normal.name)[0]) == 20,
        watched.WAIT_S,
    )
    offset = {"partition": {"task.id": f"{normal.name}-0"}, "offset": {"saved": 20}}
    eventually.eventually(
        lambda: worker.get(f"/connectors/{normal.name}/offsets") == {"offsets": [offset]},
        watched.WAIT_S,
        interval_s=0.3,
    )


def is_not_answered(worker: Worker, method: str, path: str, body: Any = None) -> None:
    """Within this time; in 90 s it would be, with 500."""
    with pytest.raises(httpx.ReadTimeout):
        worker.ask(method, path, body, timeout=IMPATIENT_S)


def test_who_is_slow_to_validate_holds_up_who_asked_alone(
    east: SandboxCluster, worker: Worker, make: Make
) -> None:
    """testBlockInConnectorValidate."""
    one = make(block="connector.validate")
    is_not_answered(worker, "PUT", f"/connectors/{one.name}/config", one.config())
    eventually.eventually(lambda: one.count("connector.validate") == 1, watched.WAIT_S)
    others_work(east, worker, make)
    assert worker.ask("GET", f"/connectors/{one.name}").status_code == 404


@pytest.mark.parametrize("of", ["SlowToDefine", "SlowToBegin"])
def test_who_is_slow_to_begin_or_to_say_what_it_needs(
    east: SandboxCluster,
    worker: Worker,
    make: Make,
    *,
    of: str,
    beginning: Path,
) -> None:
    """testBlockInConnectorConfig, testBlockInConnectorInitialize."""
    one = make(connector_class=f"watched.{of}")
    beginning.unlink(missing_ok=True)
    try:
        if of == "SlowToDefine":
            is_not_answered(worker, "PUT", f"/connectors/{one.name}/config", one.config())
        else:
            worker.configure(one.name, one.config())
            is_not_answered(worker, "POST", f"/connectors/{one.name}/restart")
        others_work(east, worker, make)
    finally:
        beginning.touch()


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        pytest.param(watched.SOURCE, "connector.start", id="connector.start"),
        pytest.param(watched.SOURCE, "connector.stop", id="connector.stop"),
        pytest.param(watched.SOURCE, "task.start", id="source.start"),
        pytest.param(watched.SOURCE, "task.stop", id="source.stop"),
        pytest.param(watched.SINK, "task.start", id="sink.start"),
        pytest.param(watched.SINK, "task.stop", id="sink.stop"),
    ],
)
def test_who_does_not_come_back_holds_up_nobody_else(
    east: SandboxCluster,
    worker: Worker,
    make: Make,
    *,
    kind: str,
    place: str,
) -> None:
    """testBlockInConnectorStart, …Stop, testBlockIn{Source,Sink}Task{Start,Stop}."""
    one = make(block=place, connector_class=kind)
    more: dict[str, str | None] = {}
    if kind == watched.SINK:
        more = {"topic": None, "topics": one.name}
    worker.configure(one.name, one.config(**more))
    if place.endswith("stop"):
        watched.reaches(worker, one.name, "RUNNING", 1)
        watched.delete(worker, one)
    eventually.eventually(lambda: one.count(place) == 1, watched.WAIT_S)
    others_work(east, worker, make)
    if place == "connector.start":
        is_not_answered(worker, "POST", f"/connectors/{one.name}/restart")


@pytest.mark.full
@pytest.mark.parametrize("place", ["connector.start", "connector.stop", "task.stop"])
def test_a_worker_ends_in_time_and_begins_again(
    east: SandboxCluster,
    connect_group: Callable[..., Group],
    topic: Callable[..., str],
    tmp_path: Path,
    *,
    place: str,
) -> None:
    """testWorkerRestartWithBlockInConnectorStart, …Stop."""
    group = connect_group(settings={"task.shutdown.graceful.timeout.ms": "2000"})
    worker = group.start("one", OURS)
    with watched.connectors(east, topic, worker=worker, folder=tmp_path) as make:
        blocked, normal = make(block=place), make()
        for one in (blocked, normal):
            worker.configure(one.name, one.config())
        watched.reaches(worker, normal.name, "RUNNING", 1)
        if place.endswith("stop"):
            watched.reaches(worker, blocked.name, "RUNNING", 1)
        worker.stop()
        assert blocked.count(place) == 1
        worker.start()
        watched.reaches(worker, normal.name, "RUNNING", 1)
        if place.endswith("stop"):
            watched.reaches(worker, blocked.name, "RUNNING", 1)
        else:
            eventually.eventually(lambda: blocked.count(place) == 2, watched.WAIT_S)
        assert normal.count("task.start") == 2
        worker.sigkill()
