"""Which clusters count as unreachable, since when, and what is logged of it."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from connect_runtime.protocol.request_errors import ConnectionFailed
from mm2.clusters import reachability_monitor
from mm2.clusters.reachability_monitor import ReachabilityMonitor
from mm2.config import config_loader
from mm2.topics import flow_config
from tests.fakes.plugin_contexts import Clock

FILE = """
clusters: {{east: {{bootstrap.servers: '{east}'}}, west: {{bootstrap.servers: 'w:1'}}}}
flows:
- {{from: east, to: west, unreachable.after.seconds: {after_s}}}
- {{from: west, to: east, unreachable.after.seconds: 60}}
"""
REFUSED = ConnectionFailed("e:1", "Connection refused while connecting")
LIMIT_S = flow_config.DEFAULT_UNREACHABLE_AFTER_S
CHECK_S = reachability_monitor.CHECK_INTERVAL_S
Script = Callable[[], Iterator[float]]


def settings(east="e:1", after_s=LIMIT_S):
    text = FILE.format(east=east, after_s=after_s)
    return config_loader.parse_clusters_yaml(
        text, file="c", folder=pathlib.Path("/"), environment={}
    )


@dataclass
class Cluster:
    """Stands for `ClusterConnections`: brokers in `alive` answer whenever they are asked."""

    bootstrap: tuple[str, ...]
    alive: set[int] = field(default_factory=lambda: {1})
    view: Any = field(default_factory=lambda: SimpleNamespace(brokers={}))
    failures: dict[str, Exception] = field(default_factory=dict)
    answers: dict[int, float] = field(default_factory=dict)
    refreshed: int = 0
    closed: bool = False

    def __post_init__(self) -> None:
        self.has_brokers(1)

    def has_brokers(self, *numbers: int) -> None:
        self.view.brokers = {each: SimpleNamespace(host=f"b{each}", port=9092) for each in numbers}

    def refresh_metadata(self) -> None:
        self.refreshed += 1

    def get_last_response_time_s(self, node_id: int) -> float:
        return self.answers.get(node_id, -float("inf"))

    def get_connection_error(self, node_id: int) -> Exception | None:
        return self.failures.get(f"b{node_id}:9092")

    def get_connection_errors(self) -> dict[str, Exception]:
        return self.failures

    def call(self, to, message, *, done, timeout_s=None) -> None:
        """Answers are given in `tick`."""

    def tick(self, now_s: float) -> float:
        assert not self.closed
        self.answers.update(dict.fromkeys(self.alive, now_s))
        return 0.0

    def close(self) -> None:
        self.closed = True


class Scene:
    """Runs a watch while a script, a generator of seconds to wait, changes and checks things."""

    def __init__(self) -> None:
        self.settings = settings()
        self.clock = Clock(now=100.0)
        self.made: list[Cluster] = []
        self.prepare: Callable[[Cluster], object] = lambda _: None
        self.watch = ReachabilityMonitor(self, clock=self.clock)

    def connect(self, options, **_) -> Cluster:
        made = Cluster(tuple(options.bootstrap))
        self.prepare(made)
        self.made.append(made)
        return made

    @property
    def east(self) -> Cluster:
        return next(each for each in reversed(self.made) if each.bootstrap[0].startswith("e"))

    def passes(self, seconds: float) -> None:
        self.clock.now += seconds
        self.clock.wall += round(seconds * 1000)

    def lost(self, flow: int = 0) -> list[tuple[str, str, int]]:
        """(Side and cluster, broker, seconds since its last answer)."""
        return [
            (
                f"{each.side.value} {each.cluster}",
                each.broker,
                round((self.clock.wall - (each.since_ms or 0)) / 1000),
            )
            for each in self.watch.list_unreachable_clusters(self.settings.flows[flow])
        ]

    def run(self, script: Script) -> None:
        going, left_s = script(), 0.0
        ended: Exception | None = None

        class Stop:
            def is_set(_) -> bool:
                nonlocal left_s, ended
                if left_s <= 0:
                    try:
                        left_s = next(going)
                    except (StopIteration, AssertionError) as end:
                        ended = end
                        return True
                self.passes(CHECK_S)
                left_s -= CHECK_S
                return False

            def wait(_, timeout_s: float) -> bool:
                self.passes(timeout_s)
                return False

        self.watch.run(Stop())  # type: ignore[arg-type]
        if isinstance(ended, AssertionError):
            raise ended
        assert ended is not None
        assert all(each.closed for each in self.made)
        assert self.lost() == []


@pytest.fixture
def scene(monkeypatch, caplog):
    made = Scene()
    monkeypatch.setattr(reachability_monitor, "ClusterConnections", made.connect)
    caplog.set_level(logging.INFO, logger="mm2.clusters.reachability_monitor")
    return made


def never_answers(of: Cluster, why: Exception | None = None) -> None:
    if of.bootstrap[0].startswith("e"):
        of.has_brokers()
        of.alive = set()
        of.failures = {} if why is None else {of.bootstrap[0]: why}


def lines(caplog, level=None) -> list[str]:
    return [each.getMessage() for each in caplog.records if level is None or each.levelno == level]


def test_an_error_of_ours_neither_ends_the_watch_nor_makes_a_dead_cluster_reachable(scene, caplog):
    scene.prepare = lambda made: never_answers(made, REFUSED)

    def script():
        yield CHECK_S
        assert scene.lost(0)
        broken = scene.east
        broken.tick = lambda now_s: 1 / 0
        yield reachability_monitor.RETRY_DELAY_S
        assert scene.lost(0)
        assert scene.east is not broken
        yield CHECK_S
        assert scene.lost(0)

    scene.run(script)
    assert "monitoring the clusters failed" in lines(caplog, logging.ERROR)[0]


def test_a_flow_that_is_no_longer_in_the_file_has_no_unreachable_cluster(scene):
    scene.prepare = lambda made: never_answers(made, REFUSED)
    gone = scene.settings.flows[0]

    def script():
        yield CHECK_S
        assert scene.watch.list_unreachable_clusters(gone)
        scene.settings = dataclasses.replace(scene.settings, flows=(), clusters={})
        yield CHECK_S
        assert scene.watch.list_unreachable_clusters(gone) == ()
        scene.settings = settings()

    scene.run(script)


def test_clusters_that_answer(scene, caplog):
    def script():
        yield 120.0
        assert (scene.lost(0), scene.lost(1)) == ([], [])

    scene.run(script)
    assert lines(caplog) == []
    assert [each.refreshed for each in scene.made] == [1, 1], "flows share them"


def test_one_that_never_answered_is_lost_once_connecting_fails(scene, caplog):
    scene.prepare = lambda made: never_answers(made, REFUSED)

    def script():
        yield CHECK_S
        yield 60.0
        assert scene.lost(0) == [("source east", "", 60)]
        assert scene.lost(1) == [("target east", "", 60)]
        (found,) = scene.watch.list_unreachable_clusters(scene.settings.flows[0])
        assert "refused" in found.reason

    scene.run(script)
    (line,) = lines(caplog)
    assert line.startswith("east unreachable since ")
    assert "refused" in line


def test_one_that_never_answered_without_an_error_is_lost_after_a_while(scene, caplog):
    scene.prepare = never_answers

    def script():
        yield 2.0
        assert scene.lost() == []
        yield LIMIT_S
        assert scene.lost() == [("source east", "", 12)]
        (found,) = scene.watch.list_unreachable_clusters(scene.settings.flows[0])
        assert "no response within" in found.reason
        assert "e:1" in found.reason

    scene.run(script)
    assert len(lines(caplog, logging.WARNING)) == 1


def test_the_least_limit_of_the_flows_counts_as_soon_as_it_is_set(scene):
    def script():
        yield 5.0
        scene.east.alive = set()
        yield LIMIT_S + 1
        assert scene.lost()
        scene.settings = settings(after_s=30)
        yield 1.0
        assert scene.lost() == []
        yield 20.0
        assert scene.lost()

    scene.run(script)


def test_one_whose_brokers_all_fall_silent_is_lost_since_their_last_answer(scene, caplog):
    def script():
        yield 5.0
        scene.east.alive = set()
        yield LIMIT_S
        assert scene.lost() == []
        yield 2 * CHECK_S
        assert scene.lost() == [("source east", "", 11)]
        (before,) = scene.watch.list_unreachable_clusters(scene.settings.flows[0])
        assert before.reason == "no response"
        scene.clock.wall += 300  # the clocks drift apart
        yield 50.0
        lost = scene.watch.list_unreachable_clusters(scene.settings.flows[0])
        assert lost == (before,), "the same moment"

    scene.run(script)
    (line,) = lines(caplog)
    assert line.startswith("east unreachable since ")


def test_the_reason_is_the_last_connection_error(scene):
    def script():
        yield 5.0
        scene.east.alive, scene.east.failures = set(), {"b1:9092": REFUSED}
        yield LIMIT_S + 1
        (found,) = scene.watch.list_unreachable_clusters(scene.settings.flows[0])
        assert "refused" in found.reason

    scene.run(script)


def test_one_of_three_brokers_leaves_the_cluster_reachable(scene, caplog):
    def script():
        yield CHECK_S
        scene.east.has_brokers(1, 2, 3)
        scene.east.alive = {1, 2, 3}
        yield 5.0
        scene.east.alive = {1, 3}
        yield LIMIT_S + 1
        assert scene.lost() == [("source east", "2 (b2:9092)", 11)]
        yield 30.0
        assert scene.lost() == [("source east", "2 (b2:9092)", 41)]
        scene.east.alive = set()
        yield LIMIT_S + 1
        assert scene.lost() == [("source east", "", 11)]

    scene.run(script)
    first, second = lines(caplog)
    assert first.startswith("east broker 2 (b2:9092) unreachable since ")
    assert second.startswith("east unreachable since ")


def test_one_that_answers_again_is_lost_no_more(scene, caplog):
    def script():
        for _ in range(2):
            yield 5.0
            scene.east.alive = set()
            yield LIMIT_S + 1
            assert scene.lost() == [("source east", "", 11)]
            scene.east.alive = {1}
            yield 1.0
            assert scene.lost() == []

    scene.run(script)
    assert lines(caplog, logging.INFO) == ["east responds again"] * 2
    assert len(lines(caplog, logging.WARNING)) == 2


def test_brokers_that_come_back_one_by_one(scene, caplog):
    def script():
        yield CHECK_S
        scene.east.has_brokers(1, 2)
        scene.east.alive = {1, 2}
        yield 5.0
        scene.east.alive = set()
        yield LIMIT_S + 1
        scene.east.alive = {1}
        yield 1.0
        assert scene.lost() == [("source east", "2 (b2:9092)", 12)]
        scene.east.alive = {1, 2}
        yield 1.0
        assert scene.lost() == []

    scene.run(script)
    told = [each.partition(" unreachable since ")[0] for each in lines(caplog)]
    assert told == [
        "east",
        "east broker 2 (b2:9092)",
        "east responds again",
        "east broker 2 (b2:9092) responds again",
    ]


def test_a_broker_that_left_the_cluster_is_not_said_to_answer(scene, caplog):
    def script():
        yield CHECK_S
        scene.east.has_brokers(1, 2)
        scene.east.alive = {1, 2}
        yield 5.0
        scene.east.alive = {1}
        yield LIMIT_S + 1
        scene.east.has_brokers(1)
        yield 1.0
        assert scene.lost() == []

    scene.run(script)
    assert lines(caplog, logging.INFO) == [
        "east broker 2 (b2:9092) is no longer in the cluster's metadata"
    ]


def test_time_in_which_the_process_stood_still_does_not_count(scene, caplog):
    def script():
        yield 5.0
        scene.east.alive = set()
        scene.passes(60.0)
        yield 2 * CHECK_S
        assert scene.lost() == [], "answers may be waiting unread"
        scene.east.alive = {1}
        yield 30.0

    scene.run(script)
    assert lines(caplog) == []


def test_a_cluster_that_is_reached_otherwise_is_connected_to_again(scene, caplog):
    scene.prepare = lambda made: (
        never_answers(made, REFUSED) if made.bootstrap == ("e:1",) else None
    )

    def script():
        yield 5.0
        east, west = scene.made
        assert scene.lost() != []
        scene.settings = settings(east="e2:1")
        yield 1.0
        assert (east.closed, west.closed) == (True, False)
        assert [each.bootstrap for each in scene.made] == [("e:1",), ("w:1",), ("e2:1",)]
        assert scene.lost() == []
        scene.settings = settings(east="e2:1")
        yield 1.0
        assert len(scene.made) == 3, "nothing of it changed"

    scene.run(script)
