"""A real Prometheus over a real mm2 run, with the rules of deploy/, ten times as fast.

While all is well every panel and every rule gets an answer, but for those that are about trouble
(`questions.ABOUT_TROUBLE`); then trouble comes, the alerts fire, and those panels have something to
show.
The tests of this file are about one scene, and run in this order.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm2.config import flow_connector_configs
from mm2.node import drill_report
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import beats, content, eventually, kafka, mirror, operations, questions
from tests.support.beats import Beats
from tests.support.mirror import Mirror
from tests.support.prometheus import Prometheus
from tests.support.steady import Steady

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

FACTOR = 10
SOON_S = 100.0
FLOW = mirror.FLOW
AGE_MS, KEPT_MS = 900_000, 1_100_000
PLAIN, STAMPED, LATE, GAPPY, GONE = "plain", "stamped", "late", "gappy", "gone"
TROUBLE = (
    "Mm2DataLossImminent",
    "Mm2GapDetected",
    "Mm2PartitionsHalted",
    "Mm2ClusterUnreachable",
    "Mm2Absent",
)
ABOUT_TROUBLE = questions.about_trouble(FACTOR)
NODE_GONE, UNREACHABLE = "mm2:flow:unreported", "mm2:flow:unreachable"
STANDSTILL = (
    "Mm2FlowStalled",
    "Mm2HeartbeatLost",
    "Mm2PartitionsNotReplicating",
    "Mm2FreshnessBurnsFast",
)
STANDSTILL_S = 40
"""After so long, at this pace, the first two of them would fire."""


class Scene:
    """Two clusters of its own, one flow, traffic, and Prometheus."""

    def __init__(self, folder: Path, east: SandboxCluster, west: SandboxCluster) -> None:
        self.folder, self.east = folder, east
        self.source, self.target = east.client_properties(), west.client_properties()
        self.answered: set[str] = set()

    def settings(self) -> dict[str, object]:
        given = mirror.settings(
            self.source,
            self.target,
            heartbeats_replication_enabled=True,
            emit_checkpoints_interval_seconds=1,
            refresh_groups_interval_seconds=1,
            refresh_topics_interval_seconds=2,
            sync_topic_configs_enabled=False,
            throttle_topics=[f"{LATE}=2kB"],
        )
        report = self.folder / "drill.json"
        drill_report.record_drill_result(
            report, FLOW, {}, passed=True, at_ms=mirror.CLOCK.wall_ms()
        )
        return given | {"drill": {"report": str(report)}}

    def fill(self) -> None:
        kafka.create_topic(self.source, PLAIN, partitions=2)
        kafka.create_topic(self.source, STAMPED, config={"message.timestamp.type": "LogAppendTime"})
        kafka.create_topic(self.source, LATE, config={"retention.ms": str(KEPT_MS)})
        for name in (GAPPY, GONE, beats.TOPIC):
            kafka.create_topic(self.source, name)
        for name in (PLAIN, LATE, GAPPY, GONE):
            kafka.produce(self.source, name, content.some(20))
        kafka.commit_offsets(self.source, "billing", {(PLAIN, 0): 5})

    def start(self, stack: contextlib.ExitStack) -> None:
        self.fill()
        self.traffic = Steady(self.source, {PLAIN: 2, STAMPED: 1}, each=1)
        self.beats = Beats(self.source, home="east")
        stack.enter_context(self.traffic)
        stack.enter_context(self.beats)
        self.run = stack.enter_context(Mirror(self.folder / "run", self.settings()))
        folder = self.folder / "prometheus"
        at = [self.run.metrics_address]
        self.server = stack.enter_context(Prometheus(folder, at, factor=FACTOR))

    def tell(self, command: str) -> None:
        """An operator does, by a command of mm2."""
        done = mirror.mm2(command, FLOW, "--config", self.run.settings_path)
        assert done.returncode == 0, done.stdout + done.stderr

    def await_answer(self, expr: str) -> None:
        eventually.eventually(lambda: self.answers(expr), SOON_S, expr, interval_s=0.5)

    def answers(self, expr: str) -> bool:
        """With a figure, that is: NaN is none."""
        return any(not math.isnan(value) for _, value in self.server.ask(expr))

    def note_answers(self) -> None:
        """Which of the questions about trouble have an answer now."""
        self.answered |= {expr for expr in ABOUT_TROUBLE if self.answers(expr)}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with contextlib.ExitStack() as stack:
        east, west = (stack.enter_context(SandboxCluster(name)) for name in ("east", "west"))
        made = Scene(tmp_path_factory.mktemp("observed"), east, west)
        stack.callback(east.unfreeze)
        made.start(stack)
        yield made


def test_every_panel_and_every_rule_gets_an_answer(scene: Scene):
    scene.await_answer(f'mm2:flow:failover_ready{{flow="{FLOW}"}} == 1')
    assert not set(TROUBLE) & scene.server.firing().keys()
    for expr in dict.fromkeys(questions.every(FACTOR)):
        if not questions.is_about_trouble(expr):
            scene.await_answer(expr)
    assert not set(TROUBLE) & scene.server.firing().keys()


def test_records_that_the_source_is_about_to_delete(scene: Scene):
    old = mirror.CLOCK.wall_ms() - AGE_MS
    for _ in range(30):
        kafka.produce(scene.source, LATE, content.some(10, bytes_each=1000, timestamp=old))
    scene.server.await_firing("Mm2DataLossImminent", SOON_S)
    scene.note_answers()


def test_a_gap(scene: Scene):
    """What it had asked for when it was frozen may come with the first five."""
    scene.run.freeze()
    kafka.produce(scene.source, GAPPY, content.some(5))
    kafka.produce(scene.source, GAPPY, content.some(20))
    operations.delete_records(scene.source, GAPPY, 40)
    scene.run.thaw()
    scene.server.await_firing("Mm2GapDetected", SOON_S)
    scene.note_answers()


def test_a_topic_made_again_stops_its_partitions(scene: Scene):
    operations.recreate(scene.source, GONE)
    scene.server.await_firing("Mm2PartitionsHalted", SOON_S)
    scene.note_answers()


def test_a_flow_that_an_operator_pauses_wakes_nobody(scene: Scene):
    """Nor do its checkpoints, which are paused over REST."""
    assert not set(STANDSTILL) & scene.server.firing().keys()
    scene.tell("pause")
    scene.run.pause_connector(flow_connector_configs.CHECKPOINT_CONNECTOR)
    connector = flow_connector_configs.CHECKPOINT_CONNECTOR
    held = f'flow="{FLOW}", connector="{connector}", override="paused"'
    scene.await_answer(f"mm2_connector_override{{{held}}} == 1")
    scene.await_answer(f'mm2_flow_override{{flow="{FLOW}", override="paused"}} == 1')
    scene.await_answer(f"mm2_flow_last_replication_age_seconds > {STANDSTILL_S}")
    scene.await_answer("mm2_checkpoint_age_seconds > on () mm2:limit:seconds{of='checkpoints'}")
    scene.note_answers()
    assert not set(STANDSTILL) & scene.server.firing().keys()
    assert scene.server.ask('ALERTS{alertname="Mm2CheckpointsStale"}') == [], "not even pending"
    assert scene.server.ask(f'mm2:flow:stale_bool{{flow="{FLOW}"}}') == []
    scene.tell("resume")
    scene.await_answer("mm2_flow_last_replication_age_seconds < 5")
    scene.await_answer("mm2_checkpoint_age_seconds < 5")
    eventually.eventually(lambda: scene.server.ask("mm2_connector_override") == [], SOON_S)


def test_all_that_is_about_trouble_had_something_to_say(scene: Scene):
    for expr in ABOUT_TROUBLE - scene.answered:
        if not questions.speaks_of(f"{NODE_GONE}|{UNREACHABLE}", expr):
            scene.await_answer(expr)


def test_a_frozen_source_pages_once_until_it_thaws(scene: Scene):
    assert "Mm2ClusterUnreachable" not in scene.server.firing()
    for writer in (scene.traffic, scene.beats):
        writer.stop()  # it could not write
    scene.east.freeze()
    scene.server.await_firing("Mm2ClusterUnreachable", SOON_S)
    for expr in ABOUT_TROUBLE:
        if questions.speaks_of(UNREACHABLE, expr):
            scene.await_answer(expr)
    scene.await_answer(f"mm2_flow_last_replication_age_seconds > {STANDSTILL_S}")
    assert not set(STANDSTILL) & scene.server.firing().keys()
    assert scene.server.ask(f'mm2_flow_healthy{{flow="{FLOW}"}} == 0')
    assert scene.server.ask(f'mm2:flow:failover_ready{{flow="{FLOW}"}} == 0')
    scene.east.unfreeze()
    with Beats(scene.source, home="east"):
        scene.server.await_quiet("Mm2ClusterUnreachable", SOON_S)


def test_a_process_that_is_gone_is_missed_with_its_flow(scene: Scene):
    scene.run.kill()
    scene.server.await_firing("Mm2Absent", SOON_S)
    scene.server.await_firing("Mm2FlowUnreported", SOON_S)
    scene.await_answer(f'{NODE_GONE}{{flow="{FLOW}"}}')
    assert scene.server.ask(f'mm2:flow:failover_ready{{flow="{FLOW}"}}') == []
    scene.await_answer(f'mm2:flow:stale_bool{{flow="{FLOW}"}} == 1')
