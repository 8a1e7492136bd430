"""Plugins that throw, return rubbish or never come back: their own connector or task has failed,
with the trace in its status, and all others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, idle_source, kafka, watched
from tests.support.connect_workers import Group, Kind, Worker
from tests.support.kafka import Outgoing
from tests.support.watched import Watched

pytestmark = pytest.mark.integration

OURS = Kind.OURS
PLUGINS = Path(idle_source.__file__).with_name("faulty_plugins")
WAIT_S = 20.0
LEFT_BEHIND_S = 60.0


@pytest.fixture(scope="module")
def worker(east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """For all tests of this module; a connector `good` with a task runs from the start to the end,
    without ever being started again."""
    folder = tmp_path_factory.mktemp("workers")
    good = Watched("good", folder)
    with Group(
        east.client_properties(),
        "faulty-plugins",
        folder=folder,
        settings={
            "plugin.path": f"{idle_source.PLUGIN_PATH},{PLUGINS}",
            "task.shutdown.graceful.timeout.ms": "1000",
            "offset.flush.interval.ms": "300",
        },
    ) as group:
        made = group.start("one", OURS)
        made.configure(good.name, good.config())
        watched.reaches(made, good.name, "RUNNING", 1)
        yield made
        assert made.runs(good.name)
        assert (good.count("connector.start"), good.count("task.start")) == (1, 1)
        assert made.stop() == 143


@pytest.fixture
def connector(east: SandboxCluster, topic: Callable[..., str], worker: Worker) -> Iterator[str]:
    """The name of one, and of its topic with a record; it can be deleted, whatever it is like."""
    name = kafka.create_topic(east.client_properties(), topic(), partitions=1)
    kafka.produce(east.client_properties(), name, [Outgoing(value=b"v")])
    yield name

    def gone() -> bool:
        answer = worker.ask("DELETE", f"/connectors/{name}")
        assert answer.status_code in (204, 404), answer.text
        return worker.ask("GET", f"/connectors/{name}").status_code == 404

    eventually.eventually(gone, WAIT_S, interval_s=0.2)
    assert worker.runs("good")


def config(of: str, name: str, **more: str) -> dict[str, str]:
    topics = {"topics": name} if of == "FaultySink" else {"topic": name}
    return {"connector.class": f"faulty.{of}", "tasks.max": "1", **topics} | {
        key.replace("_", "."): value for key, value in more.items()
    }


def failed(worker: Worker, name: str, told: str) -> bool:
    """What it says, told by the connector where it is of the connector, by the task where not."""
    status = worker.get(f"/connectors/{name}/status")
    mine = [status["connector"]] if told.startswith("connector") else status["tasks"]
    assert [each["state"] for each in mine] == ["FAILED"], status
    assert told in mine[0]["trace"], status
    return True


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            {"tasks.max": "0", "batch.size": "many", "config.action.reload": "never"},
            "Connector configuration is invalid and contains the following 4 error(s):\n",
        ),
        ({"connector.class": "Nope"}, "Failed to find any class that implements Connector and"),
        ({"connector.class": None}, "contains no connector type"),
    ],
    ids=["values", "no such class", "no class"],
)
def test_bad_configurations(worker, connector, wrong, told):
    """More of them, beside Java's worker: tests/interop/test_rest_beside_java.py."""
    config = {"connector.class": "FileStreamSource", "file": "f"} | wrong
    posted = worker.ask("POST", "/connectors", {"name": connector, "config": config})
    put = worker.ask("PUT", f"/connectors/{connector}/config", config)
    for answer in (posted, put):
        assert (answer.status_code, answer.json()["error_code"]) == (400, 400), answer.text
        assert told in answer.json()["message"]
    for name in wrong if len(wrong) > 1 else ():
        assert name in posted.json()["message"]
    assert worker.ask("GET", f"/connectors/{connector}").status_code == 404


@pytest.mark.parametrize(
    ("of", "told", "settings"),
    [
        ("NotMade", "connector.__init__ throws", {}),
        ("NotDefined", "connector.config throws", {}),
        ("OddlyDefined", "", {}),
        ("FaultySource", "connector.validate throws", {"throws_in": "connector.validate"}),
        ("FaultySource", "", {"odd_in": "connector.validate"}),
    ],
    ids=["__init__", "config", "odd config", "validate", "odd validate"],
)
def test_who_cannot_be_validated_is_not_made(worker, connector, of, told, settings):
    answer = worker.ask("PUT", f"/connectors/{connector}/config", config(of, connector, **settings))
    assert answer.status_code in (400, 500), answer.text
    message = answer.json()["message"]
    assert told in message
    assert of in message
    assert worker.ask("GET", f"/connectors/{connector}").status_code == 404


@pytest.mark.parametrize(
    ("of", "how", "place"),
    [
        ("FaultySource", "throws", "connector.start"),
        ("FaultySource", "throws", "task.start"),
        ("FaultySource", "throws", "task.poll"),
        ("FaultySource", "odd", "task.poll"),
        ("FaultySink", "throws", "task.start"),
        ("FaultySink", "throws", "task.open"),
        ("FaultySink", "throws", "task.put"),
    ],
)
def test_who_fails_says_so_with_its_trace(worker, connector, of, how, place):
    worker.configure(connector, config(of, connector, **{f"{how}_in": place}))
    told = f"{place} throws" if how == "throws" else "task"
    eventually.eventually(lambda: failed(worker, connector, told), WAIT_S, interval_s=0.2)


@pytest.mark.parametrize(
    ("of", "told"), [("TaskNotMade", "task.__init__ throws"), ("OddTasks", "task_class")]
)
def test_a_task_that_cannot_be_made(worker, connector, of, told):
    worker.configure(connector, config(of, connector))
    eventually.eventually(lambda: failed(worker, connector, told), WAIT_S, interval_s=0.2)


@pytest.mark.parametrize("how", ["throws", "odd"])
def test_task_configs_are_asked_for_again(worker, connector, how):
    """As Java does: who cannot say today what its tasks are may be able to tomorrow."""
    worker.configure(
        connector, config("FaultySource", connector, **{f"{how}_in": "connector.task_configs"})
    )
    eventually.eventually(
        lambda: f"failed to publish task configs of {connector}" in worker.log_path.read_text(),
        WAIT_S,
    )
    status = worker.get(f"/connectors/{connector}/status")
    assert (status["connector"]["state"], status["tasks"]) == ("RUNNING", [])
    worker.configure(connector, config("FaultySource", connector))
    eventually.eventually(lambda: worker.runs(connector), WAIT_S)


@pytest.mark.parametrize(
    ("of", "place"),
    [
        ("FaultySource", "task.commit"),
        ("FaultySource", "task.commit_record"),
        ("FaultySource", "task.stop"),
        ("FaultySource", "connector.stop"),
        ("FaultySink", "task.pre_commit"),
        ("FaultySink", "task.close"),
        ("OfNoVersion", "connector.version"),
    ],
)
def test_what_is_thrown_beside_the_work_is_logged(worker, connector, of, place):
    """The connector runs, and goes when it shall."""
    worker.configure(connector, config(of, connector, throws_in=place))
    eventually.eventually(lambda: worker.runs(connector), WAIT_S)
    if place.endswith(("stop", "close")):
        assert worker.ask("DELETE", f"/connectors/{connector}").status_code == 204
    eventually.eventually(lambda: f"{place} throws" in worker.log_path.read_text(), WAIT_S)


@pytest.mark.parametrize(
    "place", ["task.poll", pytest.param("connector.task_configs", marks=pytest.mark.full)]
)
def test_who_does_not_come_back_is_left_behind(worker, connector, place):
    """The herder waits half a minute for task configs; the other places: test_worker_blocked."""
    worker.configure(connector, config("FaultySource", connector, hangs_in=place))
    tasks = 0 if place.startswith("connector") else 1
    eventually.eventually(lambda: worker.runs(connector, tasks=tasks), LEFT_BEHIND_S)
    assert worker.ask("PUT", f"/connectors/{connector}/stop").status_code == 204
    eventually.eventually(
        lambda: worker.get(f"/connectors/{connector}/status")["connector"]["state"] == "STOPPED",
        LEFT_BEHIND_S,
    )
