"""All edge-case topics: their settings, writers, and the features that their logs must contain.

    written = edge_case_topics.write_topics(east.client_properties(), kafka_version="4.3.1")
    names = {topic.name: "east." + topic.name for topic in written}
    replication_proof.compare_topics(east…, west…, names)

Content is reproducible from its seed, except for timestamps that brokers assign. `write_topics`
returns only after every feature has been verified in the log: the cleaner has run, and the record
formats are as expected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.partition_reader import ConsumerLogReader
from mm2.sandbox.sandbox_clients import ClientProperties, SandboxClients
from mm2.sandbox.sandbox_errors import SandboxError
from mm2.sandbox.traffic import topic_creation
from mm2.sandbox.traffic.edge_cases import topic_writers
from mm2.sandbox.traffic.edge_cases.raw_batch_writer import RawLog
from mm2.sandbox.traffic.edge_cases.record_features import (
    ALL_CODECS,
    RecordFeature,
    RecordFeatureCounts,
)
from mm2.sandbox.traffic.edge_cases.topic_writers import ConfigAlterer, TopicWriter, TrafficSize
from mm2.sandbox.traffic.topic_creation import TrafficTopic

_CURRENT_CODECS = frozenset(ALL_CODECS)
_LEGACY_CODECS = _CURRENT_CODECS - {"zstd"}
_NO_CODEC = frozenset({"none"})
_ANY_FUTURE_CONFIG = {"message.timestamp.after.max.ms": "9223372036854775807"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeCaseTopic:
    """Definition of an edge-case topic."""

    name: str
    description: str
    write: Callable[[TopicWriter], None]
    features: frozenset[RecordFeature]
    """Features that the topic's log must contain."""
    codecs: frozenset[str] = _NO_CODEC
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    settings_to_remove: tuple[str, ...] = ()
    """Topic settings that are reset to their defaults after the records have been written."""
    wait_for_cleaner: bool = False
    """True if the writer must wait until log compaction has kept only one record per key."""
    changes_timestamp_type: bool = False
    """True if consumers see a timestamp type other than CreateTime, which mirror topics do not
    preserve."""
    future: bool = False


def _make_message_format_config(version: str) -> dict[str, str]:
    return {topic_writers.FORMAT_VERSION_CONFIG: version}


CURRENT_TOPICS = (
    EdgeCaseTopic(
        name="codecs",
        description="all codecs in one partition",
        write=topic_writers.write_compressed_batches,
        features=frozenset(),
        codecs=_CURRENT_CODECS,
        partitions=2,
    ),
    EdgeCaseTopic(
        name="shapes",
        description="tombstones, null keys, various headers",
        write=topic_writers.write_varied_records,
        features=frozenset(),
        codecs=frozenset({"none", "zstd"}),
        partitions=3,
    ),
    EdgeCaseTopic(
        name="transactions",
        description="interleaved transactions, committed and aborted",
        write=topic_writers.write_transactions,
        features=frozenset({RecordFeature.TRANSACTIONAL, RecordFeature.MARKER}),
        codecs=_CURRENT_CODECS - {"snappy"},
        partitions=2,
    ),
    EdgeCaseTopic(
        name="large",
        description="records of 10 MB",
        write=topic_writers.write_large_records,
        features=frozenset({RecordFeature.HUGE_RECORD, RecordFeature.SINGLE}),
        codecs=frozenset({"none", "gzip"}),
        config={"max.message.bytes": str(topic_writers.LARGE_MESSAGE_BYTES)},
    ),
    EdgeCaseTopic(
        name="append-time",
        description="timestamps assigned by the broker",
        write=topic_writers.write_append_time_records,
        features=frozenset({RecordFeature.APPEND_TIME, RecordFeature.SINGLE}),
        codecs=_CURRENT_CODECS,
        partitions=2,
        config={"message.timestamp.type": "LogAppendTime"},
        changes_timestamp_type=True,
    ),
    EdgeCaseTopic(
        name="past",
        description="timestamps from 2001 and 1970, and no timestamps",
        write=topic_writers.write_past_timestamps,
        features=frozenset({RecordFeature.NO_TIME}),
        codecs=_CURRENT_CODECS,
        partitions=2,
    ),
    EdgeCaseTopic(
        name="future",
        description="timestamps in the future, up to the year 9999",
        write=topic_writers.write_future_timestamps,
        features=frozenset(),
        codecs=_CURRENT_CODECS,
        partitions=2,
        future=True,
    ),
    EdgeCaseTopic(
        name="single",
        description="batches of one record, plain and compressed",
        write=topic_writers.write_single_record_batches,
        features=frozenset({RecordFeature.SINGLE}),
        codecs=_CURRENT_CODECS,
        partitions=2,
    ),
    EdgeCaseTopic(
        name="tiny",
        description="a large number of batches of one to three records",
        write=topic_writers.write_tiny_batches,
        features=frozenset({RecordFeature.SINGLE}),
    ),
    EdgeCaseTopic(
        name="big-batches",
        description="batches of 4 MB with many records, larger than the topic's current limit",
        write=topic_writers.write_big_batches,
        features=frozenset({RecordFeature.LARGE}),
        codecs=frozenset({"none", "lz4", "zstd"}),
        config={"max.message.bytes": str(topic_writers.BIG_BATCH_LIMIT_BYTES)},
        settings_to_remove=("max.message.bytes",),
    ),
    EdgeCaseTopic(
        name="by-hand",
        description="valid batches that no client writes",
        write=topic_writers.write_handmade_batches,
        features=frozenset({RecordFeature.SINGLE, RecordFeature.HORIZON}),
        codecs=frozenset({"none", "gzip"}),
    ),
    EdgeCaseTopic(
        name="compacted",
        description="compacted: gaps, tombstones and emptied batches in every codec",
        write=topic_writers.write_compacted_records,
        features=frozenset({RecordFeature.GAPS, RecordFeature.HOLES, RecordFeature.EMPTY}),
        codecs=_CURRENT_CODECS,
        partitions=2,
        config=topic_writers.COMPACTED_CONFIG,
        wait_for_cleaner=True,
    ),
    EdgeCaseTopic(
        name="compacted-transactions",
        description="compacted transactions, every third aborted",
        write=topic_writers.write_compacted_transactions,
        features=frozenset({RecordFeature.GAPS, RecordFeature.HOLES, RecordFeature.MARKER}),
        partitions=2,
        config=topic_writers.COMPACTED_CONFIG,
        wait_for_cleaner=True,
    ),
)
OLD_FORMAT_TOPICS = (
    EdgeCaseTopic(
        name="v0",
        description="format v0, plain and as wrappers",
        write=topic_writers.write_old_format_records,
        features=frozenset({RecordFeature.V0}),
        codecs=_LEGACY_CODECS,
        config=_make_message_format_config(topic_writers.V0_VERSION),
        changes_timestamp_type=True,
    ),
    EdgeCaseTopic(
        name="v1",
        description="format v1, plain and as wrappers",
        write=topic_writers.write_old_format_records,
        features=frozenset({RecordFeature.V1}),
        codecs=_LEGACY_CODECS,
        config=_make_message_format_config(topic_writers.V1_VERSION),
    ),
    EdgeCaseTopic(
        name="v1-append-time",
        description="format v1, timestamps assigned by the broker",
        write=topic_writers.write_old_format_records,
        features=frozenset({RecordFeature.V1, RecordFeature.APPEND_TIME}),
        codecs=_LEGACY_CODECS,
        config=_make_message_format_config(topic_writers.V1_VERSION)
        | {"message.timestamp.type": "LogAppendTime"},
        changes_timestamp_type=True,
    ),
    EdgeCaseTopic(
        name="all-formats",
        description="v0, v1 and v2 in one partition",
        write=topic_writers.write_changing_format_records,
        features=frozenset({RecordFeature.V0, RecordFeature.V1}),
        codecs=_LEGACY_CODECS,
        config=_make_message_format_config(topic_writers.V0_VERSION),
        changes_timestamp_type=True,
    ),
    EdgeCaseTopic(
        name="v0-compacted",
        description="compacted, format v0: wrappers with gaps",
        write=topic_writers.write_compacted_old_format_records,
        features=frozenset({RecordFeature.V0}),
        codecs=_LEGACY_CODECS,
        config=_make_message_format_config(topic_writers.V0_VERSION)
        | topic_writers.COMPACTED_CONFIG,
        wait_for_cleaner=True,
        changes_timestamp_type=True,
    ),
    EdgeCaseTopic(
        name="v1-compacted",
        description="compacted, format v1: wrappers with gaps",
        write=topic_writers.write_compacted_old_format_records,
        features=frozenset({RecordFeature.V1}),
        codecs=_LEGACY_CODECS,
        config=_make_message_format_config(topic_writers.V1_VERSION)
        | topic_writers.COMPACTED_CONFIG,
        wait_for_cleaner=True,
    ),
)


def list_topics(version: tuple[int, int]) -> tuple[EdgeCaseTopic, ...]:
    """Return the edge-case topics that a broker of this release (major, minor) can store."""
    return (*CURRENT_TOPICS, *OLD_FORMAT_TOPICS) if version < (3, 0) else CURRENT_TOPICS


def make_topic_config(one: EdgeCaseTopic, version: tuple[int, int]) -> dict[str, str]:
    """Return the settings with which to create an edge-case topic on a Kafka release. Releases
    before 3.6 have no setting that limits future timestamps."""
    return {**one.config, **(_ANY_FUTURE_CONFIG if one.future and version >= (3, 6) else {})}


ReportProgress = Callable[[str], None]

_CLEANING_S = 90.0
_CLEANER_POLL_INTERVAL_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTopic:
    """An edge-case topic that has been written and verified."""

    name: str
    records: int
    """Number of records that read_committed consumers see."""
    changes_timestamp_type: bool
    """True if consumers see a timestamp type other than CreateTime, which mirror topics do not
    preserve."""


def write_topics(
    to: ClientProperties,
    *,
    kafka_version: str,
    seed: int = 1,
    size: TrafficSize = TrafficSize.QUICK,
    prefix: str = "odd-",
    only: Collection[str] = (),
    report: ReportProgress = lambda _: None,
    now: Clock | None = None,
) -> tuple[WrittenTopic, ...]:
    """Create and fill the edge-case topics that this Kafka version supports; `only` restricts them
    to the listed topics.

    `report` is called before each topic. Raises `SandboxError` if a log lacks an expected feature.
    """
    clock = now or SystemClock()
    version = _parse_kafka_version(kafka_version)
    chosen = [one for one in list_topics(version) if not only or one.name in only]
    unknown = set(only) - {one.name for one in chosen}
    if unknown:
        raise SandboxError(f"unknown edge-case topics for Kafka {kafka_version}: {sorted(unknown)}")
    at = SandboxClients(to, alias="source")
    topic_creation.create_topics(
        at,
        [
            TrafficTopic(
                name=prefix + one.name,
                partitions=one.partitions,
                config=make_topic_config(one, version),
            )
            for one in chosen
        ],
    )
    changes = ConfigAlterer(at)
    with RawLog(to) as raw, ConsumerLogReader(to, alias="source") as reader:
        raw.preload_topic_metadata(prefix + one.name for one in chosen)
        writer = _EdgeCaseWriter(at, changes, raw=raw, reader=reader, clock=clock)
        changes.alter_broker_settings(topic_writers.EAGER_CLEANER_CONFIG)
        try:
            for one in chosen:
                report(one.description)
                rng = Random(f"{seed} {one.name}")  # noqa: S311
                writer.fill_topic(one, prefix + one.name, rng=rng, size=size)
            return tuple(writer.verify_topic(one, prefix + one.name) for one in chosen)
        finally:
            changes.alter_broker_settings(dict.fromkeys(topic_writers.EAGER_CLEANER_CONFIG))


class _EdgeCaseWriter:
    def __init__(
        self,
        at: SandboxClients,
        changes: ConfigAlterer,
        *,
        raw: RawLog,
        reader: ConsumerLogReader,
        clock: Clock,
    ) -> None:
        self._clients = at
        self._changes = changes
        self._raw = raw
        self._reader = reader
        self._clock = clock
        self._now_ms = clock.wall_ms()
        self._written: dict[str, int] = {}

    def fill_topic(self, one: EdgeCaseTopic, name: str, *, rng: Random, size: TrafficSize) -> None:
        desk = TopicWriter(
            clients=self._clients,
            changes=self._changes,
            raw=self._raw,
            name=name,
            partitions=one.partitions,
            rng=rng,
            now_ms=self._now_ms,
            clock=self._clock,
            size=size,
        )
        one.write(desk)
        self._written[name] = desk.written
        if one.settings_to_remove:
            self._changes.alter_topic_settings(name, dict.fromkeys(one.settings_to_remove))

    def verify_topic(self, one: EdgeCaseTopic, name: str) -> WrittenTopic:
        """Wait for the cleaner if needed, and verify the features in the topic's log."""
        partitions = [TopicPartition(name, number) for number in range(one.partitions)]
        if one.wait_for_cleaner and not system_clock.wait_until(
            lambda: all(map(self._is_log_cleaned, partitions)),
            timeout_s=_CLEANING_S,
            interval_s=_CLEANER_POLL_INTERVAL_S,
        ):
            raise SandboxError(
                f"{name} still has several records of some key after waiting {_CLEANING_S:.0f} s "
                "for log compaction"
            )
        seen = self._count_features(partitions)
        missing = {each.value for each in one.features if not seen.features[each]}
        missing |= {f"codec {each}" for each in one.codecs if not seen.codecs[each]}
        if missing:
            raise SandboxError(f"the log of {name} lacks {sorted(missing)}; it contains {seen}")
        return WrittenTopic(
            name=name,
            records=self._count_visible_records(partitions)
            if one.wait_for_cleaner
            else self._written[name],
            changes_timestamp_type=one.changes_timestamp_type,
        )

    def _is_log_cleaned(self, partition: TopicPartition) -> bool:
        found = list(self._read_record_keys(partition))
        return len(found) == len(set(found))

    def _count_visible_records(self, partitions: Collection[TopicPartition]) -> int:
        return sum(sum(1 for _ in self._read_record_keys(each)) for each in partitions)

    def _read_record_keys(self, partition: TopicPartition) -> Iterator[bytes | None]:
        for chunk in self._reader.iterate_record_chunks(partition):
            yield from (key for key, *_ in chunk.contents)

    def _count_features(self, partitions: Collection[TopicPartition]) -> RecordFeatureCounts:
        found = RecordFeatureCounts()
        for each in partitions:
            found.start_counting_next_partition()
            found.count_batches(self._raw.iterate_record_sets(each))
        return found


def _parse_kafka_version(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)
