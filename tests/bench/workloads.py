"""What is mirrored: made once on the source, the same for every contestant."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system import processes
from mm2.sandbox import artefacts, cluster, jvm, properties
from tests.bench import log_counts
from tests.support import kafka

PARTITIONS = 4
LATENCY_RECORD_BYTES = 100

_PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
_PRODUCE_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`records` of `record_bytes` (values; no keys), in uncompressed batches of `batch_bytes`."""

    topic: str
    title: str
    records: int
    record_bytes: int
    batch_bytes: int

    @property
    def size(self) -> int:
        """Bytes of values."""
        return self.records * self.record_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """A workload that stands on the source: records by partition, and how its batches came out."""

    workload: Workload
    records: dict[int, int]
    batch_bytes_mean: int


def of_size(megabytes: int) -> list[Workload]:
    """`megabytes` (10^6 bytes) of 1 KB records, and three tenths of that in records of 100 B."""
    return [
        Workload(
            topic="big",
            title="1 KB records in batches of 128 KB",
            records=megabytes * 1_000,
            record_bytes=1_000,
            batch_bytes=128 * 1024,
        ),
        Workload(
            topic="small",
            title="100 B records in batches of 16 KB",
            records=megabytes * 3_000,
            record_bytes=100,
            batch_bytes=16 * 1024,
        ),
    ]


def data_folder(running: cluster.Cluster) -> Path:
    """Where the only broker of a cluster keeps its logs."""
    return running.folder / "broker-1" / "data"


def produce(workload: Workload, source: cluster.Cluster) -> Produced:
    """Make the topic and fill it with Kafka's own Java producer; `RuntimeError` when it fails."""
    kafka.create_topic(source.client_properties(), workload.topic, partitions=PARTITIONS)
    _run_producer(workload, source)
    counts = log_counts.topic(data_folder(source), workload.topic, partitions=PARTITIONS)
    there = sum(each.records for each in counts.values())
    if there != workload.records:
        raise RuntimeError(
            f"producing {workload.topic}: {there:,} records arrived, not {workload.records:,}"
        )
    batches = sum(each.batches for each in counts.values())
    return Produced(
        workload=workload,
        records={number: each.records for number, each in counts.items()},
        batch_bytes_mean=sum(each.size for each in counts.values()) // batches,
    )


def _run_producer(workload: Workload, source: cluster.Cluster) -> None:
    settings = {
        **source.client_properties(),
        "acks": "all",
        "batch.size": str(workload.batch_bytes),
        "compression.type": "none",
        "linger.ms": "1000",
        "buffer.memory": str(128 * 1024 * 1024),
    }
    with tempfile.TemporaryDirectory(prefix="mm2-bench-") as name:
        config, log = Path(name) / "producer.properties", Path(name) / "producer.log"
        config.write_text(properties.render(settings))
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
        if status != 0:
            said = log.read_text(errors="replace")[-1_500:]
            raise RuntimeError(f"producing {workload.topic}: status {status}\n{said}")
