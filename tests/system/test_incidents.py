"""Incidents on real brokers: every surface says the same, and what is really so.

Each scene makes something go wrong and states once what that is (`incidents.Expectation`). The exit
codes and texts of `mm2 status`, `lag`, `why` and `failover`, the health pages, the status page and
the metrics are compared with it. They agree within `WITHIN_S` of the event, but for the commands,
which are started then; on a busy machine only the long forms insist on that time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mm2 import exit_codes, suggested_commands
from mm2.sandbox import port_reservation
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import (
    client_certificates,
    content,
    disks,
    eventually,
    incidents,
    kafka,
    mirror,
    operations,
)
from tests.support.incidents import Expectation
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

WITHIN_S = 15.0
SOON_S = 90.0
COUNT = 20
INLINE = {"engine": "inline"}
HEALTHY = Expectation(health="healthy")


@dataclass(kw_only=True)
class Scene:
    """A flow of one topic with two partitions between clusters that the test may break."""

    source: SandboxCluster
    target: SandboxCluster
    topic: str
    run: Mirror
    happened_s: float = field(default_factory=mirror.CLOCK.now_s)

    def happens(self) -> None:
        """Now: what is expected next has to be said within `WITHIN_S`."""
        self.happened_s = mirror.CLOCK.now_s()

    def expect(self, expected: Expectation, *, punctual: bool = False) -> None:
        """Wait until all surfaces agree with what is so. `punctual`: health and metrics do within
        `WITHIN_S` of the event."""

        def is_noticed() -> bool:
            status, _ = incidents.get(self.run.metrics_address, incidents.REPLICATING)
            healthy = incidents.figures(self.run, self.topic)["healthy"]
            is_so = expected.health == "healthy"
            return (status, healthy) == ((200, 1.0) if is_so else (503, 0.0))

        eventually.eventually(is_noticed, SOON_S, lambda: f"{expected}\n{self.run.tail}")
        noticed_s = mirror.CLOCK.now_s() - self.happened_s
        assert not punctual or noticed_s <= WITHIN_S, f"noticed after {noticed_s:.1f} s"
        seen: list[str] = []

        def agree() -> bool:
            surfaces = incidents.collect(self.run, self.topic)
            seen[:] = incidents.disagreements(expected, surfaces)
            return not seen

        eventually.eventually(agree, SOON_S, lambda: "\n".join([*seen, self.run.tail]))

    def operate(self, *words: str) -> None:
        """An operator's command."""
        done = mirror.mm2(*words, "--config", self.run.settings_path)
        assert done.returncode == exit_codes.DONE, done.stdout + done.stderr

    def status(self) -> Mapping[str, Any]:
        """What `mm2 status --json` says of the flow."""
        done = mirror.mm2("status", self.run.settings_path, "--json")
        found: Mapping[str, Any] = json.loads(done.stdout)["flows"][0]
        return found

    def await_state(self, state: str) -> None:
        eventually.eventually(lambda: self.status()["state"] == state, SOON_S, interval_s=0.5)

    def obey_remedy(self) -> None:
        """Run the command that `mm2 status` prints for what is stopped."""
        printed = mirror.mm2("status", self.run.settings_path).stdout
        line = next(each for each in printed.splitlines() if "halted since" in each)
        program, *words = shlex.split(suggested_commands.extract_remedy_from_message(line))
        assert program == "mm2", line
        done = mirror.mm2(*words)
        assert done.returncode == exit_codes.DONE, done.stdout + done.stderr


@contextlib.contextmanager
def begun(
    folder: Path,
    source: SandboxCluster,
    target: SandboxCluster,
    topic: str,
    *,
    replicas: int = 1,
    **flow: Any,
) -> Iterator[Scene]:
    """Everything is replicated, and healthy."""
    client = source.client_properties()
    kafka.create_topic(client, topic, replication_factor=replicas)
    kafka.produce(client, topic, content.some(COUNT))
    given = mirror.settings(
        client, target.client_properties(), topics=[topic], spark=INLINE, **flow
    )
    with Mirror(folder, given) as run:
        run.await_records(COUNT, topic=topic)
        yield Scene(source=source, target=target, topic=topic, run=run)


@pytest.fixture
def scene(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster], topic: Callable[..., str]
) -> Iterator[Scene]:
    with begun(tmp_path, own_cluster("east"), own_cluster("west"), topic("orders")) as made:
        yield made


SINCE = r"unreachable since \d\d:\d\d:\d\dZ: .*refused"
SOURCE_LOST = Expectation(
    health="unhealthy",
    reason=rf"source east {SINCE}",
    lag=None,
    lag_code=exit_codes.FAILED,
    why=rf"waiting: source east broker 1 \(.*\) {SINCE}",
    failover=r"east does not respond .*\(origin-unreachable\)[\s\S]*verdict: NO-GO",
    failover_code=exit_codes.FAILED,
    lost=frozenset({"source"}),
)
TARGET_LOST = Expectation(
    health="unhealthy",
    reason=rf"target west {SINCE}",
    lag=0,
    lag_code=exit_codes.FAILED,
    why=rf"east->west is unhealthy: target west {SINCE}",
    failover="west: .*refused",
    failover_code=exit_codes.UNREACHABLE,
    ready=False,
    lost=frozenset({"target"}),
)
BOTH_LOST = dataclasses.replace(
    TARGET_LOST,
    reason=rf"source east {SINCE}.*; target west {SINCE}",
    lag=None,
    why=rf"east->west is unhealthy: source east {SINCE}",
    lost=frozenset({"source", "target"}),
)


def test_a_dead_source_a_dead_target_and_both(scene: Scene):
    scene.expect(HEALTHY)
    scene.source.kill()
    scene.expect(SOURCE_LOST)
    scene.target.kill()
    scene.expect(BOTH_LOST)
    scene.source.start()
    scene.expect(TARGET_LOST)
    scene.target.start()
    scene.expect(HEALTHY)


@pytest.mark.full
@pytest.mark.parametrize(("side", "expected"), [("source", SOURCE_LOST), ("target", TARGET_LOST)])
def test_a_cluster_that_dies_is_noticed_in_time(scene: Scene, side: str, expected: Expectation):
    """Also one whose broker only hangs."""
    lost: SandboxCluster = getattr(scene, side)
    for end, again in ((lost.kill, lost.start), (lost.freeze, lost.unfreeze)):
        scene.expect(HEALTHY)
        end()
        scene.happens()
        hangs = end == lost.freeze
        scene.expect(without_cause(expected) if hangs else expected, punctual=True)
        again()
    scene.expect(HEALTHY)


def without_cause(expected: Expectation) -> Expectation:
    """Of a broker that takes connections and says nothing there is no error."""
    return dataclasses.replace(
        expected,
        **{
            name: getattr(expected, name).replace(": .*refused", "").replace(".*refused", "")
            for name in ("reason", "why", "failover")
        },
    )


PAUSED = Expectation(
    health="suspended",
    state="PAUSED",
    reason="paused by an operator; resume with: mm2 resume 'east->west' --config ",
    lag=5,
    lag_code=exit_codes.FAILED,
    why="paused: an operator paused the flow. Remedy: mm2 resume 'east->west' --config ",
    failover=r"RPO: 5 records[\s\S]*verdict: GO",
)
STOPPED = Expectation(
    health="suspended",
    state="STOPPED",
    reason=r"stopped by failover or REST at .*Z; resume with: mm2 resume 'east->west' --config ",
    lag=5,
    lag_code=exit_codes.FAILED,
    why="the flow is STOPPED",
    failover=r"RPO: 5 records[\s\S]*verdict: GO",
)
RECREATED = Expectation(
    health="unhealthy",
    reason="1 partition halted",
    lag=None,
    lag_code=exit_codes.UNKNOWN,
    why=r"halted: .*recreated.*mm2 topic reset 'east->west'",
    failover=r"verdict: NO-GO",
    failover_code=exit_codes.FAILED,
)


def test_what_operators_hold_back_and_a_recreated_topic(scene: Scene):
    client = scene.source.client_properties()
    scene.operate("pause", "east->west")
    scene.await_state("PAUSED")
    kafka.produce(client, scene.topic, content.some(5))
    scene.expect(PAUSED)
    scene.run.stop_connector("MirrorSourceConnector")
    scene.expect(STOPPED)
    scene.operate("resume", "east->west")
    scene.expect(HEALTHY)
    operations.recreate(client, scene.topic)
    kafka.produce(client, scene.topic, content.some(3))
    scene.expect(RECREATED)
    scene.obey_remedy()
    scene.expect(HEALTHY)


OVERTAKEN = Expectation(
    health="unhealthy",
    reason="1 partition halted",
    lag=2,
    lag_code=exit_codes.FAILED,
    why=r"halted: .*mm2 topic reset 'east->west'",
    failover=r"verdict: ",
)


@pytest.mark.full
def test_retention_that_overtook_a_paused_flow(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster], topic: Callable[..., str]
):
    source, target = own_cluster("east"), own_cluster("west")
    with begun(tmp_path, source, target, topic("orders"), on_source_gap="fail") as scene:
        client = source.client_properties()
        scene.operate("pause", "east->west")
        scene.await_state("PAUSED")
        kafka.produce(client, scene.topic, content.some(10))
        operations.delete_records(client, scene.topic, COUNT + 8)
        scene.operate("resume", "east->west")
        scene.expect(OVERTAKEN)
        scene.obey_remedy()
        scene.expect(HEALTHY)


TRUNCATED = Expectation(
    health="unhealthy",
    reason="1 partition halted",
    lag=None,
    lag_code=exit_codes.UNKNOWN,
    why=r"halted: .*mm2 topic reset 'east->west'",
    failover=r"verdict: NO-GO",
    failover_code=exit_codes.FAILED,
)


@pytest.mark.full
def test_a_source_that_lost_records_that_were_replicated(scene: Scene):
    """As when a broker comes back with an empty disk."""
    scene.source.stop()
    for segment in (scene.source.brokers[1].folder / "data" / f"{scene.topic}-0").glob("0*"):
        segment.unlink()
    scene.source.start()
    kafka.produce(scene.source.client_properties(), scene.topic, content.some(3))
    scene.expect(TRUNCATED)
    scene.obey_remedy()
    scene.expect(HEALTHY)


@pytest.mark.full
@pytest.mark.parametrize("side", ["east", "west"])
def test_one_broker_of_three_is_no_incident_where_others_lead(
    tmp_path: Path,
    own_cluster: Callable[..., SandboxCluster],
    topic: Callable[..., str],
    side: str,
):
    clusters = {
        name: own_cluster(name, brokers=3 if name == side else 1) for name in ("east", "west")
    }
    with begun(
        tmp_path,
        clusters["east"],
        clusters["west"],
        topic("orders"),
        replicas=3 if side == "east" else 1,
        replication_factor=-1,
    ) as scene:
        scene.expect(HEALTHY)
        clusters[side].brokers[2].kill()
        scene.happens()
        kafka.produce(clusters["east"].client_properties(), scene.topic, content.some(5))
        scene.expect(HEALTHY)


@pytest.mark.full
def test_a_full_disk_of_the_target(
    tmp_path: Path,
    own_cluster: Callable[..., SandboxCluster],
    topic: Callable[..., str],
):
    source = own_cluster("east")
    target = own_cluster("west", settings={"log.segment.bytes": "4000000"})
    with (
        disks.small(tmp_path / "small-disk") as small_disk,
        begun(tmp_path, source, moved(target, small_disk), topic("orders")) as scene,
    ):
        scene.expect(HEALTHY)
        for _ in range(3):
            much = content.some(20_000, bytes_each=1_000)
            kafka.produce(source.client_properties(), scene.topic, much)
        eventually.eventually(
            lambda: not target.brokers[1].is_running, 180.0, "the broker's disk is full"
        )
        scene.expect(dataclasses.replace(TARGET_LOST, lag=1, lag_is_least=True))
        disks.grow(small_disk)
        target.start(timeout_s=180.0)
        scene.expect(HEALTHY)


def moved(target: SandboxCluster, disk: Path) -> SandboxCluster:
    disks.move_data(target, disk)
    return target


ELSEWHERE = dataclasses.replace(HEALTHY, why="unseen: .*only the process", elsewhere=True)


@pytest.mark.full
def test_another_node_has_the_tasks(
    tmp_path: Path, east: SandboxCluster, west: SandboxCluster, topic: Callable[..., str]
):
    with begun(tmp_path, east, west, topic("orders"), tasks_max=1) as first:
        other = tmp_path / "other"
        with Mirror(other, first.run.settings_path.read_text()) as run:
            second = dataclasses.replace(first, run=run)
            second.expect(ELSEWHERE)
        first.expect(HEALTHY)


# What is wrong from the start


def unstarted(**more: Any) -> Expectation:
    given: dict[str, Any] = {
        "health": "unhealthy",
        "state": "PLANNING",
        "lag": None,
        "lag_code": exit_codes.FAILED,
        "ready": False,
        "failover": "",
        "failover_code": exit_codes.FAILED,
    }
    return Expectation(**(given | more))


WRONG_PORT = unstarted(
    reason=r"source east unreachable since .*refused",
    why=r"the status of .* is unknown: source east unreachable: .*refused",
    why_code=exit_codes.UNREACHABLE,
    lost=frozenset({"source"}),
)


def test_a_wrong_port(
    tmp_path: Path, east: SandboxCluster, west: SandboxCluster, topic: Callable[..., str]
):
    nowhere, name = port_reservation.reserve_port(), topic("orders")
    given = mirror.settings(
        {"bootstrap.servers": f"127.0.0.1:{nowhere.port}"},
        west.client_properties(),
        topics=[name],
        spark=INLINE,
    )
    with Mirror(tmp_path, given) as run:
        scene = Scene(source=east, target=west, topic=name, run=run)
        scene.expect(WRONG_PORT)
    nowhere.release()


REFUSED_BY_SOURCE = unstarted(
    state="FAILED",
    why_code=exit_codes.UNKNOWN,
    lost=frozenset({"source"}),
)


@pytest.fixture
def companion(
    tmp_path: Path, east: SandboxCluster, west: SandboxCluster, topic: Callable[..., str]
) -> Iterator[Callable[..., Scene]]:
    """Begins a run with a flow that is healthy, so that `mm2 run` goes on, and one that is not."""
    started = contextlib.ExitStack()

    def begin(source: Mapping[str, str], target: Mapping[str, str], **flow: Any) -> Scene:
        name = topic("orders")
        if source["bootstrap.servers"] == east.bootstrap:
            kafka.create_topic(source, name)
            kafka.produce(source, name, content.some(COUNT))
        given = mirror.settings(dict(source), dict(target), topics=[name], spark=INLINE, **flow)
        given["clusters"]["north"] = dict(east.client_properties())
        given["clusters"]["south"] = dict(west.client_properties())
        given["flows"].append(
            {"from": "north", "to": "south", "topics": "none", "replication.factor": 1}
        )
        run = started.enter_context(Mirror(tmp_path, given))
        return Scene(source=east, target=west, topic=name, run=run)

    yield begin
    started.close()


@pytest.mark.full
def test_a_wrong_password(
    companion: Callable[..., Scene],
    own_cluster: Callable[..., SandboxCluster],
    west: SandboxCluster,
):
    secure = own_cluster("secure", users=["alice"])
    wrong = dict(secure.client_properties("alice"))
    wrong["sasl.jaas.config"] = re.sub(
        r'password="[^"]+"', 'password="not-the-password"', wrong["sasl.jaas.config"]
    )
    scene = companion(wrong, west.client_properties())
    reason = r"source east unreachable since .*uthentication"
    scene.expect(dataclasses.replace(REFUSED_BY_SOURCE, reason=reason, why="uthentication"))
    assert "not-the-password" not in scene.run.log


@pytest.mark.full
def test_an_expired_certificate(
    companion: Callable[..., Scene], tmp_path: Path, west: SandboxCluster
):
    with client_certificates.expired_listener(tmp_path) as expired:
        scene = companion(expired, west.client_properties())
        expected = "certificate has expired"
        scene.expect(dataclasses.replace(REFUSED_BY_SOURCE, reason=expected, why=expected))


NO_RIGHTS = unstarted(
    state="FAILED",
    reason=r"[Aa]uthoriz",
    why=r"the flow is FAILED: .*[Aa]uthoriz",
    lag=COUNT,
)


@pytest.mark.full
def test_no_rights_on_the_target(
    companion: Callable[..., Scene],
    own_cluster: Callable[..., SandboxCluster],
    east: SandboxCluster,
):
    secure = own_cluster("secure", users=["alice"])
    scene = companion(east.client_properties(), secure.client_properties("alice"))
    scene.expect(NO_RIGHTS)


UNCREATABLE = unstarted(
    health="pending",
    reason=r"creating topic mm2-.* replication factor of 3",
    why="the flow is PLANNING: creating topic mm2-",
    lag=COUNT,
)


@pytest.mark.full
def test_internal_topics_that_cannot_be_created(
    companion: Callable[..., Scene], own_cluster: Callable[..., SandboxCluster], east: Any
):
    target = own_cluster("west")
    scene = companion(east.client_properties(), target.client_properties(), replication_factor=3)
    scene.expect(UNCREATABLE)
