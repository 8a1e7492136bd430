"""Makes a workload's topic and fills it: with Kafka's own Java producer, or keyed and cleaned."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from connect_runtime.system import child_processes, system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import broker_settings, java_server_process, kafka_jars
from mm2.sandbox.sandbox_clients import SandboxClients
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.traffic.edge_cases import topic_writers
from mm2.sandbox.traffic.edge_cases.topic_writers import ConfigAlterer
from tests.bench import log_counts
from tests.bench.log_counts import Counts
from tests.bench.workloads import Produced, Shape, Workload
from tests.support import kafka
from tests.support.kafka import Outgoing

_PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
_PRODUCE_TIMEOUT_S = 300.0
_CLEAN_TIMEOUT_S = 300.0
_CREATE_TIMEOUT_S = 60.0
_SETTLE_S = 10.0
_FILLER_EVERY = 10
_LATER_MS = 60_000
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "30000",
    "min.cleanable.dirty.ratio": "0.01",
}


def data_folder(running: SandboxCluster) -> Path:
    """Where the first broker of a cluster keeps its logs: replicas of everything."""
    return running.folder / "broker-1" / "data"


def produce(workload: Workload, source: SandboxCluster) -> Produced:
    """Make the topic and fill it; `RuntimeError` when it does not come out as it should."""
    if workload.shape is Shape.GAPS:
        expected = _produce_and_clean(workload, source)
    else:
        _create(workload, source)
        fill(workload, source)
        expected = workload.records
    system_clock.wait_until(lambda: _standing(workload, source) == expected, timeout_s=_SETTLE_S)
    counts = _counts(workload, source)
    there = sum(each.records for each in counts.values())
    if there != expected:
        raise RuntimeError(f"producing {workload.topic}: {there:,} records stand, not {expected:,}")
    batches = sum(each.batches for each in counts.values())
    if workload.shape is Shape.SINGLE and batches != there:
        raise RuntimeError(f"producing {workload.topic}: {there:,} records in {batches:,} batches")
    return Produced(
        workload=workload,
        records={number: each.records for number, each in counts.items()},
        batch_bytes_mean=sum(each.size for each in counts.values()) // batches,
    )


def _create(workload: Workload, source: SandboxCluster) -> None:
    """And wait for all partitions: an idempotent producer that finds them coming loses its way."""
    kafka.create_topic(source.client_properties(), workload.topic, partitions=workload.partitions)
    data = data_folder(source)
    folders = [data / f"{workload.topic}-{number}" for number in range(workload.partitions)]
    if not system_clock.wait_until(
        lambda: all((each / "partition.metadata").exists() for each in folders),
        timeout_s=_CREATE_TIMEOUT_S,
    ):
        raise RuntimeError(f"creating {workload.topic}: not all of its partitions are there")


def _counts(workload: Workload, source: SandboxCluster) -> dict[int, Counts]:
    return log_counts.topic(data_folder(source), workload.topic, partitions=workload.partitions)


def fill(workload: Workload, source: SandboxCluster) -> None:
    """Into a topic that is there; `RuntimeError` where the producer fails."""
    single = workload.shape is Shape.SINGLE
    given = {
        **source.client_properties(),
        "acks": "all",
        # 0 is how the Java client is told to send each record by itself.
        "batch.size": "0" if single else str(workload.batch_bytes),
        "linger.ms": "0" if single else "1000",
        "compression.type": workload.codec,
        "buffer.memory": str(128 * 1024 * 1024),
    }
    with tempfile.TemporaryDirectory(prefix="mm2-bench-") as name:
        config, log = Path(name) / "producer.properties", Path(name) / "producer.log"
        config.write_text(broker_settings.render_properties(given))
        argv = java_server_process.make_java_command(
            _PRODUCER,
            *("--topic", workload.topic, "--num-records", str(workload.records)),
            *("--record-size", str(workload.record_bytes), "--throughput", "-1"),
            *("--command-config", str(config)),
            jars=kafka_jars.ensure_jars(),
            flags=java_server_process.BENCH_JVM_FLAGS,
        )
        with log.open("wb") as output:
            child = child_processes.start_process(argv, output=output)
        status = child.wait(_PRODUCE_TIMEOUT_S)
        if status is None:
            child.kill()
        said = log.read_text(errors="replace")
        # The tool counts what failed among what it has sent, and ends with status 0.
        if status != 0 or "Exception" in said:
            raise RuntimeError(f"producing {workload.topic}: status {status}\n{said[-1_500:]}")


# Cleaned


def _produce_and_clean(workload: Workload, source: SandboxCluster) -> int:
    """Every tenth record has the same key: all but the last of these go, from every batch.

    Returns how many records are left.
    """
    access = source.client_properties()
    kafka.create_topic(access, workload.topic, partitions=workload.partitions, config=_COMPACTED)
    kafka.produce(
        access,
        workload.topic,
        _keyed(workload),
        compression_type=workload.codec,
        batch_size=workload.batch_bytes,
        batch_num_messages=1_000_000,
        queue_buffering_max_messages=1_000_000,
        linger_ms=200,
    )
    # A later record closes the segment, and only closed ones are cleaned.
    later_ms = SystemClock().wall_ms() + _LATER_MS
    kafka.produce(
        access,
        workload.topic,
        [
            Outgoing(key=b"last", value=b".", partition=number, timestamp=later_ms)
            for number in range(workload.partitions)
        ],
    )
    expected = _left(workload)
    changes = ConfigAlterer(SandboxClients(access, alias=source.name))
    changes.alter_broker_settings(topic_writers.EAGER_CLEANER_CONFIG)
    if not system_clock.wait_until(
        lambda: _standing(workload, source) == expected, timeout_s=_CLEAN_TIMEOUT_S, interval_s=0.5
    ):
        raise RuntimeError(
            f"cleaning {workload.topic}: {_standing(workload, source):,} records stand after "
            f"{_CLEAN_TIMEOUT_S:.0f} s, not {expected:,}"
        )
    changes.alter_broker_settings(dict.fromkeys(topic_writers.EAGER_CLEANER_CONFIG))
    # Mirrors take settings over, and nobody's cleaner may work while somebody is measured.
    changes.alter_topic_settings(workload.topic, dict.fromkeys(_COMPACTED))
    return expected


def _keyed(workload: Workload) -> Iterator[Outgoing]:
    """Values of random letters, as those of Kafka's own tool; in turn to all partitions."""
    letters = random.Random(1).choices(range(65, 91), k=workload.record_bytes + 1_000)
    text = bytes(letters)
    for number in range(workload.records):
        at = number % 1_000
        turn = number // workload.partitions
        yield Outgoing(
            key=b"filler" if turn % _FILLER_EVERY == 0 else b"key-%d" % number,
            value=text[at : at + workload.record_bytes],
            partition=number % workload.partitions,
        )


def _left(workload: Workload) -> int:
    """Of each partition: all but the fillers, the last one of these, and the one that closes."""
    left = 0
    for number in range(workload.partitions):
        mine = len(range(number, workload.records, workload.partitions))
        fillers = len(range(0, mine, _FILLER_EVERY))
        left += mine - fillers + min(1, fillers) + 1
    return left


def _standing(workload: Workload, source: SandboxCluster) -> int:
    return sum(each.records for each in _counts(workload, source).values())
