"""What of a user's file a drill keeps.

What the group of a drill may have lost, and what not."""

from __future__ import annotations

import contextlib
import os
import pathlib

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.config import java_properties
from connect_runtime.system.system_clock import SystemClock
from mm2.config import config_loader
from mm2.failover.failover_request import FailoverKind
from mm2.sandbox import cluster_security, sandbox_cluster
from mm2.sandbox.cluster_security import ClusterSecurity
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.scenarios import failover_drill
from mm2.sandbox.scenarios.failover_drill import Drill, DrillResult

FILE = """\
clusters:
  east:
    bootstrap.servers: 'prod:9092'
    security.protocol: SASL_SSL
    sasl.mechanism: PLAIN
    sasl.jaas.config: 'PlainLoginModule required username="u" password="geheim";'
    consumer.sasl.mechanism: PLAIN
  north: {bootstrap.servers: 'n:9092'}
  west: {bootstrap.servers: 'w:9092'}
defaults: {replication.factor: 3, replication.policy.separator: _}
flows:
  - {from: east, to: west, topics: [orders.*], topics.exclude: [drill.*], groups: [x],
     emit.checkpoints.interval.seconds: 5}
  - {from: west, to: east}
  - {from: north, to: west, emit.checkpoints.interval.seconds: 9}
spark: {engine: inline}
hooks:
  stop-producers: {command: [drain]}
"""


def test_the_flow_stays_and_what_leads_to_the_users_clusters_goes(tmp_path: pathlib.Path):
    before = config_loader.parse_clusters_yaml(FILE, file="c.yaml", folder=tmp_path, environment={})
    props = failover_drill.make_drill_properties(
        before.flat.props,
        ("east", "west"),
        ({"bootstrap.servers": "a:1"}, {"bootstrap.servers": "b:2"}),
    )
    text = "\n".join(java_properties.format_property(key, value) for key, value in props.items())
    assert not any(word in text for word in ("prod:", "n:9092", "geheim", "SASL", "north"))
    after = config_loader.parse_mm2_properties(
        text, file="d.properties", folder=tmp_path, environment=dict(os.environ)
    )
    (flow,) = after.flows
    assert flow.name == "east->west"
    assert flow.topics.matches("drill")
    assert flow.groups.matches("drill-group")
    assert not flow.topics.matches("orders")
    assert flow.format_remote_topic("drill") == "east_drill"
    assert flow.replication_factor == 1
    assert after.clusters["east"].bootstrap_servers == ("a:1",)
    factors = {value for key, value in props.items() if key.endswith("replication.factor")}
    assert factors == {"1"}
    assert props["emit.checkpoints.interval.seconds"] == "5"
    assert after.spark == before.spark
    assert after.hooks == {}


CONNECTION = ("bootstrap.", "security.", "sasl.", "ssl.")


def test_the_flow_logs_in_at_the_clusters_of_the_drill(tmp_path: pathlib.Path):
    before = config_loader.parse_clusters_yaml(FILE, file="c.yaml", folder=tmp_path, environment={})
    security = ClusterSecurity.create(tmp_path / "security")
    login = security.client_properties(cluster_security.ADMIN_USER, cluster_security.SCRAM_512)
    here, there = ({"bootstrap.servers": each, **login} for each in ("a:1", "b:2"))
    props = failover_drill.make_drill_properties(before.flat.props, ("east", "west"), (here, there))
    for alias, expected in {"east": here, "west": there}.items():
        assert {
            key.removeprefix(f"{alias}."): value
            for key, value in props.items()
            if key.startswith(tuple(f"{alias}.{each}" for each in CONNECTION))
        } == expected


def test_the_clusters_of_a_drill_require_a_login(tmp_path: pathlib.Path, monkeypatch):
    """A client of a broker without one can read all files of the user who runs the drill."""
    settings = config_loader.parse_clusters_yaml(
        FILE, file="c.yaml", folder=tmp_path, environment={}
    )
    started: list[SandboxCluster] = []

    def keep_and_stop(clusters: list[SandboxCluster]) -> None:
        started.extend(clusters)
        raise FatalError("enough")

    monkeypatch.setattr(sandbox_cluster, "start_clusters", keep_and_stop)
    drill = Drill(
        settings,
        settings.flows[0],
        FailoverKind.EMERGENCY,
        clock=SystemClock(),
        report_step=lambda _: None,
    )
    with contextlib.closing(drill), pytest.raises(FatalError, match="enough"):
        drill.run()
    assert [each.name for each in started] == ["east", "west"]
    assert all(each.security is not None for each in started)


ARRIVED = range(16)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (range(10), range(10, 16), set()),
        (range(10), range(4, 16), set()),  # read again
        (range(20), [], set()),  # further than what had arrived
        (range(10), range(14, 16), {10, 11, 12, 13}),
        (range(10), [10, 15, 11, 13, 14], {12}),
        (range(10), [], {10, 11, 12, 13, 14, 15}),
        ([], [], set(range(16))),
    ],
)
def test_what_had_arrived_and_nobody_processed_was_passed_over(before, after, found):
    assert failover_drill.find_skipped_records(ARRIVED, before, after) == found


def test_what_is_written_on_the_other_cluster_had_not_arrived():
    assert (
        failover_drill.find_skipped_records(
            [*ARRIVED, failover_drill.TARGET_FIRST_NUMBER, failover_drill.TARGET_FIRST_NUMBER + 1],
            ARRIVED,
            [],
        )
        == set()
    )


def result(kind: FailoverKind, bound: int | None = 5, **given: int) -> DrillResult:
    counts = {"lost": 0, "skipped": 0, "reread": 0} | given
    return DrillResult(
        kind=kind,
        sent=20,
        before=10,
        after=10,
        rto_s=1.0,
        all_s=2.0,
        report={"reread_max": bound},
        **counts,
    )


@pytest.mark.parametrize("name", ["lost", "skipped", "reread"])
def test_it_is_good_when_nothing_that_arrived_is_missing(name: str):
    assert result(FailoverKind.EMERGENCY).is_successful
    assert result(FailoverKind.EMERGENCY, **{name: 1}).is_successful is (name != "skipped")
    assert result(FailoverKind.PLANNED).is_successful
    assert not result(FailoverKind.PLANNED, **{name: 1}).is_successful


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (8, ["9 records were re-read, although the failover report states at most 8"]),
        (9, []),
        (None, []),
    ],
)
def test_more_than_the_bound_of_the_report_is_a_failure_that_is_named(bound, said):
    found = result(FailoverKind.EMERGENCY, reread=9, bound=bound)
    assert (found.failures, found.is_successful) == (said, not said)
    assert found.as_json()["failures"] == said
    assert found.as_json()["reread_max"] == bound
