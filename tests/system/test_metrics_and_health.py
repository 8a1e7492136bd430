"""All that a real `mm2 run` measures, with groups, checkpoints and heartbeats, and how its health
turns."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser

from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.metrics import Metric
from connect_runtime.worker import connect_metrics_registry
from mm2.config import flow_connector_configs
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import MapProducerKey
from mm2.metrics import metric_declarations
from mm2.node import drill_report
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import checkpoints, content, eventually, kafka, mirror
from tests.support.kafka import Outgoing
from tests.support.mirror import Mirror
from tests.support.steady import Steady

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

SOON_S = 90.0
WITHIN_S = 6
COUNT = 2_000
TASKS = 2
DRILL_S = 1_700_000_000.0
FLOW, BACK = "east->west", "west->east"
WHEN_IT_GOES_WRONG = {
    "mm2_incidents_total",
    "mm2_halted_partitions",
    "mm2_reencoded_partitions",
    "mm2_flow_override",
    "mm2_connector_override",
}
"""Without a series here: nothing was lost, stands still, or had to be opened, or is held."""
WHERE_IT_WAITS = {"mm2_time_to_data_loss_seconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    run: Mirror
    source: SandboxCluster
    target: SandboxCluster
    orders: str
    group: str

    def tell(self, command: str, *arguments: str, flow: str = FLOW) -> None:
        """An operator does it."""
        found = mirror.mm2(command, flow, *arguments, "--config", self.run.settings_path)
        assert found.returncode == 0, found.stdout + found.stderr

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(
                f"http://{self.run.metrics_address}{path}", timeout=20.0
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def health(self, kind: str) -> tuple[int, Any]:
        status, text = self.get(f"/health/{kind}")
        return status, json.loads(text) if status else text

    def await_health(self, kind: str, status: int) -> Any:
        """The body of the first answer with this status."""

        def ask() -> list[Any]:
            found, body = self.health(kind)
            return [body] if found == status else []

        return eventually.eventually(
            ask,
            SOON_S,
            lambda: f"{kind} {status}: {self.health(kind)}\n{self.run.tail}",
            interval_s=0.2,
        )[0]


@pytest.fixture
def scene(
    tmp_path: Path, own_cluster: Callable[..., SandboxCluster], topic: Callable[..., str]
) -> Iterator[Scene]:
    source, target = own_cluster("east"), own_cluster("west")
    client = source.client_properties()
    orders = kafka.create_topic(client, topic("orders"), partitions=2)
    group = f"{orders}-billing"
    kafka.produce(client, orders, content.some(COUNT))
    checkpoints.commit(client, group, {TopicPartition(orders, 0): 20})
    given = mirror.settings(
        client,
        target.client_properties(),
        topics=[orders],
        groups=[re.escape(group)],
        heartbeats_replication_enabled=True,
        emit_heartbeats_interval_seconds=1,
        refresh_topics_interval_seconds=1,
        refresh_groups_interval_seconds=1,
        emit_checkpoints_interval_seconds=1,
        sync_group_offsets_enabled=True,
        sync_group_offsets_interval_seconds=1,
        tasks_max=TASKS,
    )
    given["flows"].append(
        {
            "from": "west",
            "to": "east",
            "enabled": False,
            "emit.heartbeats.enabled": True,
            "emit.heartbeats.interval.seconds": 1,
            "replication.factor": 1,
        }
    )
    stores = ("config", "offset", "status")
    given["worker"] = {f"{each}.storage.replication.factor": 1 for each in stores}
    given["metrics"] = {"by": "partition"}
    given["health"] = {"replicating.within.seconds": WITHIN_S}
    given["drill"] = {"report": "drills.json"}
    drill_report.record_drill_result(
        tmp_path / "drills.json", FLOW, {}, passed=True, at_ms=round(DRILL_S * 1000)
    )
    with Mirror(tmp_path, given) as run:
        yield Scene(run=run, source=source, target=target, orders=orders, group=group)


def test_all_is_measured_and_health_turns(scene: Scene):
    told = scene.await_health("live", 200)
    assert told["status"] == "ok"
    assert scene.health("ready")[0] == 503, "Spark takes seconds to start"
    assert scene.health("replicating")[0] == 503, "nothing was replicated yet"
    scene.run.await_records(COUNT, topic=scene.orders)
    scene.await_health("ready", 200)
    scene.await_health("replicating", 200)
    with Steady(scene.source.client_properties(), {scene.orders: 2}):
        all_is_measured(scene)
        javas_names_are_apart(scene)
    its_rest_server_has_health_too(scene)
    it_replicates_at_rest(scene)
    what_is_frozen_does_not_replicate(scene)
    what_is_paused_says_so(scene)
    heartbeats_that_are_paused_are_told_of(scene)
    a_partition_that_is_halted_is_counted_and_not_copied(scene)
    where_all_partitions_are_halted_nothing_replicates(scene)


def families(scene: Scene, path: str = "/metrics") -> dict[str, Any]:
    status, text = scene.get(path)
    assert status == 200, text
    return {each.name: each for each in parser.text_string_to_metric_families(text)}


def series(scene: Scene, metric: Metric, **labels: str) -> list[float]:
    name = metric.name.removesuffix("_total")
    family = families(scene)[name]
    return [
        each.value
        for each in family.samples
        if labels.items() <= each.labels.items() and each.name == metric.name
    ]


def tasks(scene: Scene) -> dict[str, float]:
    """How many there are, by state."""
    found = families(scene)[metric_declarations.FLOW_TASKS.name].samples
    return {each.labels["state"]: each.value for each in found if each.value}


def copied(scene: Scene) -> float:
    """So many partitions are copied just now."""
    phases = ("copying", "boundary")
    return sum(
        sum(series(scene, metric_declarations.FLOW_PARTITIONS, phase=each)) for each in phases
    )


def all_is_measured(scene: Scene) -> None:
    """What has to be there is there, with values that can be; and nothing else is."""
    wanted = [
        each
        for each in metric_declarations.ALL_METRICS
        if each.name not in WHEN_IT_GOES_WRONG | WHERE_IT_WAITS
    ]

    def missing() -> list[str]:
        found = families(scene)
        names = (
            each.name.removesuffix("_total")
            for each in (*wanted, *metric_declarations.PARTITION_METRICS)
        )
        return [name for name in names if not found[name].samples]

    eventually.eventually(lambda: not missing(), SOON_S, lambda: f"{missing()}\n{scene.run.tail}")
    declared = {
        each.name: each
        for each in (*metric_declarations.ALL_METRICS, *metric_declarations.PARTITION_METRICS)
    }
    for group in connect_metrics_registry.ALL_GROUPS:
        declared.update(
            (each.name, each) for each in connect_metrics_registry.declare_metrics(group).values()
        )
    for name, family in families(scene).items():
        of_counter = name if family.type != "counter" else f"{name}_total"
        metric = declared[of_counter]
        ours = name.startswith("mm2_")
        assert family.type == metric.kind.value, name
        assert family.documentation == metric.help, name
        for sample in family.samples:
            labels = set(sample.labels) - {"le"}
            assert labels == {*metric.labels, *([] if ours else ["flow"])}, sample
    eventually.eventually(  # each figure is of another scrape, and records keep coming
        lambda: figures_are_sane(scene), SOON_S, lambda: f"figures are sane\n{scene.run.tail}"
    )


def figures_are_sane(scene: Scene) -> bool:
    one = {"flow": FLOW}
    orders = {**one, "topic": scene.orders}
    assert series(scene, metric_declarations.FLOW_STATE, state="RUNNING", **one) == [1.0]
    assert series(scene, metric_declarations.ENGINE_READY) == [1.0]
    assert tasks(scene) == {"RUNNING": TASKS}
    assert series(scene, metric_declarations.FLOW_ASSIGNED_PARTITIONS, **one) == [3.0]
    assert copied(scene) == 3, "two of the topic, and that of heartbeats"
    (records,) = series(scene, metric_declarations.REPLICATED_RECORDS, **orders)
    assert records >= COUNT
    (passed,) = series(scene, metric_declarations.REPLICATED_BATCHES, path="pass-through", **orders)
    assert 0 < passed <= records
    latency = families(scene)[metric_declarations.REPLICATION_LATENCY.name]
    (counted,) = [each.value for each in latency.samples if each.name.endswith("_count")]
    assert counted >= records
    (last,) = [each.value for each in latency.samples if each.labels.get("le") == "+Inf"]
    assert last == counted
    assert series(scene, metric_declarations.DUPLICATES_REFUSED, **orders) == [0.0]
    for metric, most in (
        (metric_declarations.LAST_REPLICATION_AGE, 5.0),
        (metric_declarations.HEARTBEAT_AGE, 10.0),
        (metric_declarations.HEARTBEAT_ROUND_TRIP, 10.0),
        (metric_declarations.CHECKPOINT_AGE, 15.0),
        (metric_declarations.CLOCK_SKEW, 0.5),
    ):
        (value,) = series(scene, metric, **one)
        assert 0.0 <= value < most, metric.name
    # The first rounds may be over before the group is known.
    assert series(scene, metric_declarations.CHECKPOINTED_GROUPS, **one) == [1.0]
    assert max(series(scene, metric_declarations.OFFSET_MAP_AGE, **one)) < 10.0
    assert series(scene, metric_declarations.LAST_DRILL, **one) == [DRILL_S]
    assert series(scene, metric_declarations.DRILL_REPORT_CONFIGURED, **one) == [1.0]
    (rebalances,) = series(scene, metric_declarations.REBALANCES, **one)
    assert rebalances >= 1
    assert series(scene, metric_declarations.REBALANCES, flow=BACK) != []
    (used,), (free,) = (
        series(scene, metric_declarations.SPARK_SLOTS, use=each) for each in ("used", "free")
    )
    assert used >= 1
    assert free > 0
    assert len(series(scene, metric_declarations.PARTITION_LAG_RECORDS, **orders)) == 2
    return True


def javas_names_are_apart(scene: Scene) -> None:
    """None of them is where ours are."""
    assert not [name for name in families(scene) if "mirror_" in name or "consumer" in name]
    found = families(scene, "/metrics/java")
    mirrored = {"source": "east", "target": "west", "topic": f"east.{scene.orders}"}
    for name in (
        "kafka_connect_mirror_mirrorsourceconnector_record_count",
        "kafka_connect_mirror_source_connector_record_count",
    ):
        counts = [
            each.value for each in found[name].samples if mirrored.items() <= each.labels.items()
        ]
        assert len(counts) == 2
        assert sum(counts) >= COUNT
    for name in (
        "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms_max",
        "kafka_connect_mirror_checkpoint_connector_checkpoint_latency_ms_max",
    ):
        assert {each.labels["group"] for each in found[name].samples} == {scene.group}
    clients = {
        each.labels["clientid"]
        for each in found["kafka_consumer_fetch_manager_records_lag"].samples
    }
    assert any(each.endswith('|replication-consumer"') for each in clients)
    for name in (
        "kafka_connect_worker_task_count",
        "kafka_connect_worker_metrics_connector_failed_task_count",
        "kafka_connect_connect_worker_rebalance_metrics_completed_rebalances",
    ):
        assert found[name].samples
    assert not [name for name in found if name.startswith("mm2_")]


def its_rest_server_has_health_too(scene: Scene) -> None:
    """For everybody; what operators ask there is not, at the port that nobody has chosen."""
    address = scene.run.await_log(r"the status page is available at (\S+)/ui")[1]
    for kind in ("live", "ready", "replicating"):
        with urllib.request.urlopen(f"{address}/health/{kind}", timeout=20.0) as answer:
            assert json.loads(answer.read())["status"] == "ok"
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"{address}/east/west/connectors", timeout=20.0)
    with raised.value as refused:
        assert refused.code == 401


def it_replicates_at_rest(scene: Scene) -> None:
    """Nobody writes, but for heartbeats, which cross."""
    before = series(scene, metric_declarations.REPLICATED_RECORDS, topic="heartbeats")
    eventually.eventually(
        lambda: series(scene, metric_declarations.REPLICATED_RECORDS, topic="heartbeats") > before,
        SOON_S,
    )
    scene.await_health("replicating", 200)


def what_is_frozen_does_not_replicate(scene: Scene) -> None:
    scene.source.freeze()
    try:
        told = scene.await_health("replicating", 503)
        (finding,) = told["findings"]
        assert (finding["flow"], finding["ok"]) == (FLOW, False)
        assert re.fullmatch(
            rf"no record replicated for \d.* \(health.replicating.within.seconds: {WITHIN_S}\)",
            finding["reason"],
        ), "sooner than a source counts as unreachable"
        await_unreachable(scene)
        assert scene.health("live")[0] == 200
        assert scene.health("ready")[0] == 200
    finally:
        scene.source.unfreeze()
    scene.await_health("replicating", 200)
    eventually.eventually(
        lambda: series(scene, metric_declarations.CLUSTER_REACHABLE, flow=FLOW) == [1.0, 1.0],
        SOON_S,
        scene.run.tail,
    )
    assert scene.get("/health/replicating?flow=none")[0] == 404


def await_unreachable(scene: Scene) -> None:
    """Metrics and health name the frozen source, and the lag is unknown."""

    def said() -> bool:
        (finding,) = scene.health("replicating")[1]["findings"]
        source = series(scene, metric_declarations.CLUSTER_REACHABLE, flow=FLOW, side="source")
        started = finding["reason"].startswith("source east unreachable since ")
        lags = series(scene, metric_declarations.LAG_RECORDS, flow=FLOW)
        return started and source == [0.0] and lags == []

    eventually.eventually(said, SOON_S, lambda: f"{scene.health('replicating')}\n{scene.run.tail}")
    eventually.eventually(
        lambda: (
            series(scene, metric_declarations.CLUSTER_REACHABLE, flow=FLOW, side="target") == [1.0]
            and series(scene, metric_declarations.FLOW_HEALTHY, flow=FLOW) == [0.0]
        ),
        SOON_S,
        lambda: scene.run.tail,
    )


def what_is_paused_says_so(scene: Scene) -> None:
    """It is ready, as it is meant to be so; it does not replicate."""
    scene.tell("pause")
    finding = scene.await_health("replicating", 503)["findings"][0]
    way_on = f"mm2 resume '{FLOW}' --config {scene.run.settings_path}"
    assert finding["reason"] == f"paused by an operator; resume with: {way_on}"
    eventually.eventually(
        lambda: (
            series(scene, metric_declarations.FLOW_OVERRIDE, flow=FLOW, override="paused") == [1.0]
        ),
        SOON_S,
    )
    assert scene.health("ready")[0] == 200
    scene.tell("resume")
    scene.await_health("replicating", 200)
    eventually.eventually(lambda: series(scene, metric_declarations.FLOW_OVERRIDE) == [], SOON_S)


def heartbeats_that_are_paused_are_told_of(scene: Scene) -> None:
    """By the flow that leads back, which mirrors nothing itself."""
    back = "west->east"
    scene.run.pause_connector(flow_connector_configs.HEARTBEAT_CONNECTOR, flow=back)
    held = {
        "flow": back,
        "connector": flow_connector_configs.HEARTBEAT_CONNECTOR,
        "override": "paused",
    }
    eventually.eventually(
        lambda: series(scene, metric_declarations.CONNECTOR_OVERRIDE, **held) == [1.0], SOON_S
    )
    assert series(scene, metric_declarations.FLOW_OVERRIDE) == []
    scene.tell("resume", flow=back)
    eventually.eventually(
        lambda: series(scene, metric_declarations.CONNECTOR_OVERRIDE) == [], SOON_S
    )


def a_partition_that_is_halted_is_counted_and_not_copied(scene: Scene) -> None:
    """The map has something of one partition that nobody can read; the others are copied."""
    key = MapProducerKey(topic=scene.orders, partition=0, producer_id=1)
    spoil_the_map(scene, offset_map_records.encode_map_key(key))
    scene.tell("restart", "--topic", scene.orders)
    eventually.eventually(
        lambda: (
            series(scene, metric_declarations.FLOW_PARTITIONS, phase="halted") == [1.0]
            and copied(scene) == 2
        ),
        SOON_S,
        lambda: f"{copied(scene)} are copied\n{scene.run.tail}",
    )
    halted = {"topic": scene.orders, "reason": "offset-map-unreadable"}

    def is_counted() -> bool:
        assert tasks(scene) == {"RUNNING": TASKS}
        assert series(scene, metric_declarations.FLOW_ASSIGNED_PARTITIONS, flow=FLOW) == [3.0]
        assert scene.health("ready")[0] == 200, "a part of it runs"
        finding = scene.await_health("replicating", 503)["findings"][0]
        assert finding["reason"] == "1 partition halted"
        return series(scene, metric_declarations.HALTED_PARTITIONS, **halted) == [1.0]

    eventually.eventually(is_counted, SOON_S, lambda: scene.run.tail)


def where_all_partitions_are_halted_nothing_replicates(scene: Scene) -> None:
    spoil_the_map(scene, b"no key of ours")
    scene.tell("restart")
    eventually.eventually(lambda: copied(scene) == 0, SOON_S, lambda: scene.run.tail)
    eventually.eventually(
        lambda: "3 partitions halted" in str(scene.health("replicating")[1]),
        SOON_S,
        lambda: f"{scene.health('replicating')}\n{scene.run.tail}",
    )
    eventually.eventually(
        lambda: series(scene, metric_declarations.FLOW_HEALTHY, flow=FLOW) == [0.0],
        SOON_S,
        lambda: scene.run.tail,
    )
    (age_s,) = series(scene, metric_declarations.LAST_REPLICATION_AGE, flow=FLOW)
    assert age_s > 0
    assert scene.health("live")[0] == 200


def spoil_the_map(scene: Scene, key: bytes) -> None:
    record = Outgoing(key=key, value=b"no value of ours")
    kafka.produce(scene.target.client_properties(), "mm2-offset-map.east.internal", [record])


def test_what_a_killed_node_had_copied_is_counted_and_not_copied_again(
    tmp_path: Path, east: SandboxCluster, west: SandboxCluster, topic: Callable[..., str]
):
    """Its main process, which stores anchors, stands still while its copies go on for a while:
    what they copied then is found again."""
    source, target = east.client_properties(), west.client_properties()
    orders = kafka.create_topic(source, topic("orders"), partitions=2)
    given = mirror.settings(source, target, topics=[orders])
    with Steady(source, {orders: 2}):
        with Mirror(tmp_path, given, name="first") as run:
            run.await_records(200, topic=orders)
            assert run.figure("mm2_duplicates_refused_total", topic=orders) == 0
            run.signal(signal.SIGSTOP)
            end = kafka.offsets(target, f"east.{orders}")[1]
            eventually.eventually(
                lambda: kafka.offsets(target, f"east.{orders}")[1] >= end + 20,
                SOON_S,
                lambda: f"its copies go on\n{run.tail}",
            )
            run.kill()
        given["spark"] = {"engine": "inline"}
        with Mirror(tmp_path, given, name="second") as run:
            run.await_records(200, topic=orders)
            found = run.figure("mm2_duplicates_refused_total", topic=orders)
            assert found >= 20, run.tail
            assert run.figure("mm2_incidents_total") == -1.0, "nothing may stand twice"
