"""Makes a workload's topic and fills it: with Kafka's own Java producer, or keyed and cleaned."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from connect_runtime.system import clock, polling, processes
from mm2.sandbox import artefacts, clients, cluster, jvm, properties
from mm2.sandbox.traffic.odd import settings
from tests.bench import log_counts, workloads
from tests.support import kafka

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


def data_folder(running: cluster.Cluster) -> Path:
    """Where the first broker of a cluster keeps its logs: replicas of everything."""
    return running.folder / "broker-1" / "data"


def produce(workload: workloads.Workload, source: cluster.Cluster) -> workloads.Produced:
    """Make the topic and fill it; `RuntimeError` when it does not come out as it should."""
    if workload.shape is workloads.Shape.GAPS:
        expected = _produce_and_clean(workload, source)
    else:
        _create(workload, source)
        fill(workload, source)
        expected = workload.records
    polling.until(lambda: _standing(workload, source) == expected, timeout_s=_SETTLE_S)
    counts = _counts(workload, source)
    there = sum(each.records for each in counts.values())
    if there != expected:
        raise RuntimeError(f"producing {workload.topic}: {there:,} records stand, not {expected:,}")
    batches = sum(each.batches for each in counts.values())
    if workload.shape is workloads.Shape.SINGLE and batches != there:
        raise RuntimeError(f"producing {workload.topic}: {there:,} records in {batches:,} batches")
    return workloads.Produced(
        workload=workload,
        records={number: each.records for number, each in counts.items()},
        batch_bytes_mean=sum(each.size for each in counts.values()) // batches,
    )


def _create(workload: workloads.Workload, source: cluster.Cluster) -> None:
    """And wait for all partitions: an idempotent producer that finds them coming loses its way."""
    kafka.create_topic(source.client_properties(), workload.topic, partitions=workload.partitions)
    data = data_folder(source)
    folders = [data / f"{workload.topic}-{number}" for number in range(workload.partitions)]
    if not polling.until(
        lambda: all((each / "partition.metadata").exists() for each in folders),
        timeout_s=_CREATE_TIMEOUT_S,
    ):
        raise RuntimeError(f"creating {workload.topic}: not all of its partitions are there")


def _counts(workload: workloads.Workload, source: cluster.Cluster) -> dict[int, log_counts.Counts]:
    return log_counts.topic(data_folder(source), workload.topic, partitions=workload.partitions)


def fill(workload: workloads.Workload, source: cluster.Cluster) -> None:
    """Into a topic that is there; `RuntimeError` where the producer fails."""
    single = workload.shape is workloads.Shape.SINGLE
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
        config.write_text(properties.render(given))
        argv = jvm.command(
            _PRODUCER,
            *("--topic", workload.topic, "--num-records", str(workload.records)),
            *("--record-size", str(workload.record_bytes), "--throughput", "-1"),
            *("--command-config", str(config)),
            jars=artefacts.jars(),
            flags=jvm.BENCH_FLAGS,
        )
        with log.open("wb") as output:
            child = processes.start(argv, output=output)
        status = child.wait(_PRODUCE_TIMEOUT_S)
        if status is None:
            child.kill()
        said = log.read_text(errors="replace")
        # The tool counts what failed among what it has sent, and ends with status 0.
        if status != 0 or "Exception" in said:
            raise RuntimeError(f"producing {workload.topic}: status {status}\n{said[-1_500:]}")


# Cleaned


def _produce_and_clean(workload: workloads.Workload, source: cluster.Cluster) -> int:
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
    later_ms = clock.SystemClock().wall_ms() + _LATER_MS
    kafka.produce(
        access,
        workload.topic,
        [
            kafka.Outgoing(key=b"last", value=b".", partition=number, timestamp=later_ms)
            for number in range(workload.partitions)
        ],
    )
    expected = _left(workload)
    changes = settings.Settings(clients.Clients(access, alias=source.name))
    changes.change_brokers(settings.EAGER_CLEANER)
    if not polling.until(
        lambda: _standing(workload, source) == expected, timeout_s=_CLEAN_TIMEOUT_S, interval_s=0.5
    ):
        raise RuntimeError(
            f"cleaning {workload.topic}: {_standing(workload, source):,} records stand after "
            f"{_CLEAN_TIMEOUT_S:.0f} s, not {expected:,}"
        )
    changes.change_brokers(dict.fromkeys(settings.EAGER_CLEANER))
    # Mirrors take settings over, and nobody's cleaner may work while somebody is measured.
    changes.change_topic(workload.topic, dict.fromkeys(_COMPACTED))
    return expected


def _keyed(workload: workloads.Workload) -> Iterator[kafka.Outgoing]:
    """Values of random letters, as those of Kafka's own tool; in turn to all partitions."""
    letters = random.Random(1).choices(range(65, 91), k=workload.record_bytes + 1_000)
    text = bytes(letters)
    for number in range(workload.records):
        at = number % 1_000
        turn = number // workload.partitions
        yield kafka.Outgoing(
            key=b"filler" if turn % _FILLER_EVERY == 0 else b"key-%d" % number,
            value=text[at : at + workload.record_bytes],
            partition=number % workload.partitions,
        )


def _left(workload: workloads.Workload) -> int:
    """Of each partition: all but the fillers, the last one of these, and the one that closes."""
    left = 0
    for number in range(workload.partitions):
        mine = len(range(number, workload.records, workload.partitions))
        fillers = len(range(0, mine, _FILLER_EVERY))
        left += mine - fillers + min(1, fillers) + 1
    return left


def _standing(workload: workloads.Workload, source: cluster.Cluster) -> int:
    return sum(each.records for each in _counts(workload, source).values())
