"""The rows of the benchmark: what is mirrored, and between which clusters. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tests.bench import workloads
from tests.bench.places import Far, Place
from tests.bench.workloads import Goal, Measure, Shape, Workload

_NEAR = Place()
_AS_GOOD = Goal(factor=1.0, measure=Measure.RECORDS)
_MERGED = Goal(factor=2.0, measure=Measure.RECORDS)
_PASSED_THROUGH = (
    Goal(factor=5.0, measure=Measure.BYTES),
    Goal(factor=15.0, measure=Measure.CPU),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Workloads between two clusters of a place. `latency`: it is measured after the last one."""

    key: str
    describe: str
    place: Place
    workloads: tuple[Workload, ...]
    latency: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalancing:
    """A group of Connect workers, three at most, which all come and go in their turn.

    Each of `connectors` has `tasks_each` idle tasks. `default_delay_ms` is what stands for the
    default of `scheduled.rebalance.max.delay.ms`, five minutes.
    """

    key: str
    describe: str
    connectors: int
    tasks_each: int = 10
    default_delay_ms: int
    java_heap: str

    @property
    def tasks(self) -> int:
        return self.connectors * self.tasks_each


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """Mirrors of one topic are started, with nothing there, and again: each in `limit_s`."""

    key: str = "start"
    describe: str = "from a process's start to its first record, cold and warm"
    partitions: int = workloads.PARTITIONS
    limit_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovering:
    """Two nodes mirror one topic under traffic, and one is killed."""

    key: str = "recovery"
    describe: str = "from a node's SIGKILL until all partitions move again"
    partitions: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """So many consumer groups have offsets in each partition of a topic; for each thing that is
    waited for there is `limit_s`."""

    key: str = "groups"
    describe: str = "consumer groups are followed: how soon, and what it costs"
    groups: int = 5_000
    partitions: int = 20
    limit_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rereading:
    """Groups go on on the target: how many records each of them reads again."""

    key: str = "reread"
    describe: str = "records that groups would read again on the target"
    records: int = 20_000
    groups: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraping:
    """A flow of so many partitions is scraped, `scrapes` times a round, at rest and while `records`
    of one topic are copied, in pairs of windows. Until all are copied there is `limit_s`."""

    key: str = "scrape"
    describe: str = "metrics of ten thousand partitions are scraped, and copying goes on"
    partitions: int = 10_000
    scrapes: int = 5
    window_s: float = 1.5
    records: int = 20_000_000
    limit_s: float = 900.0


AnyRow: TypeAlias = Row | Rebalancing | Starting | Recovering | Following | Rereading | Scraping


def rebalancing(*, full: bool) -> Rebalancing:
    """`full`: three times as much, with the default delay as it is."""
    tasks = 900 if full else 300
    return Rebalancing(
        key="rebalance",
        describe=f"Connect workers come and go: {tasks // 10} connectors with {tasks} tasks",
        connectors=tasks // 10,
        default_delay_ms=300_000 if full else 10_000,
        java_heap="-Xmx768m" if full else "-Xmx384m",
    )


def every(megabytes: int, *, full: bool = False) -> tuple[AnyRow, ...]:
    """See `of_size`, `rebalancing`, and the other kinds."""
    return (
        *of_size(megabytes),
        Starting(),
        Recovering(),
        *(Following(key=f"groups-{number}", groups=number) for number in (500, 5_000)),
        Rereading(),
        Scraping(),
        rebalancing(full=full),
    )


def of_size(megabytes: int) -> tuple[Row, ...]:
    """All rows of mirrors; `megabytes` (10^6 bytes) of 1 KB records for the first.

    The others are in proportion: at 1,000 MB records of one per batch are 300,000.
    """
    kilobyte = megabytes * 1_000
    return (
        Row(
            key="main",
            describe="large and small records in ordinary batches; latency",
            place=_NEAR,
            workloads=_main(kilobyte),
            latency=True,
        ),
        Row(
            key="tiny",
            describe="one record per batch, plain and compressed",
            place=_NEAR,
            workloads=_tiny(kilobyte * 3 // 10),
        ),
        Row(
            key="compacted",
            describe="a compacted topic with gaps: every batch is opened",
            place=_NEAR,
            workloads=(_compacted(kilobyte * 2), _compacted(kilobyte * 2, one_core=True)),
        ),
        Row(
            key="rf3",
            describe="replication factor 3, acks=all",
            place=Place(target_brokers=3),
            workloads=_replicated(kilobyte * 3 // 10),
        ),
        *(_distant(kilobyte * 4 // 10, milliseconds) for milliseconds in (0, 50, 200)),
        # Java makes a round trip for every 16 KB: more would take it hours.
        *(_distant(kilobyte // 10, milliseconds, far=Far.TARGET) for milliseconds in (50, 200)),
        Row(
            key="partitions",
            describe="the same records in 1 to 1,000 partitions",
            place=_NEAR,
            workloads=tuple(_spread(kilobyte * 4 // 10, number) for number in (1, 10, 100, 1_000)),
        ),
    )


_Row = TypeVar("_Row", bound=AnyRow)


def chosen(rows: Collection[_Row], keys: Collection[str]) -> tuple[_Row, ...]:
    """Those of these keys, or that begin with one and a dash: `rtt` is all of `rtt-50`, …

    None given: all. `ValueError` for a key that names none.
    """
    for key in keys:
        if not any(_named(row, key) for row in rows):
            known = ", ".join(row.key for row in rows)
            raise ValueError(f"no row is called {key!r}; there are {known}")
    return tuple(row for row in rows if not keys or any(_named(row, key) for key in keys))


def _named(row: AnyRow, key: str) -> bool:
    return row.key == key or row.key.startswith(f"{key}-")


def _main(kilobyte: int) -> tuple[Workload, ...]:
    return (
        Workload(
            topic="big",
            title="1 KB records in batches of 128 KB",
            records=kilobyte,
            record_bytes=1_000,
            batch_bytes=128 * 1024,
            goals=_PASSED_THROUGH,
            floor=True,
        ),
        Workload(
            topic="small",
            title="100 B records in batches of 16 KB",
            records=3 * kilobyte,
            record_bytes=100,
            batch_bytes=16 * 1024,
            goals=_PASSED_THROUGH,
            floor=True,
        ),
    )


def _tiny(records: int) -> tuple[Workload, ...]:
    return tuple(
        Workload(
            topic=f"tiny-{codec}",
            title=f"100 B records, one per batch, {said}",
            records=records,
            record_bytes=100,
            batch_bytes=0,
            codec=codec,
            shape=Shape.SINGLE,
            goals=(_MERGED,),
        )
        for codec, said in (("none", "plain"), ("lz4", "compressed by lz4"))
    )


def _compacted(records: int, *, one_core: bool = False) -> Workload:
    return Workload(
        topic="compacted-one-core" if one_core else "compacted",
        title="100 B records in compacted batches of 16 KB with gaps"
        + (", on one core" if one_core else ""),
        records=records,
        record_bytes=100,
        batch_bytes=16 * 1024,
        shape=Shape.GAPS,
        goals=(_AS_GOOD,),
        one_core=one_core,
    )


def _replicated(kilobyte: int) -> tuple[Workload, ...]:
    return tuple(
        Workload(
            topic=f"rf3-{size}k",
            title=f"1 KB records in batches of {size} KB, replication factor 3, acks=all",
            records=kilobyte,
            record_bytes=1_000,
            batch_bytes=size * 1024,
            goals=(_AS_GOOD,),
        )
        for size in (16, 128)
    )


def _distant(kilobyte: int, milliseconds: int, far: Far = Far.SOURCE) -> Row:
    """Mirrors usually run near their target: the source is what is far, where nothing is said."""
    key = f"rtt-{milliseconds}" if far is Far.SOURCE else f"rtt-target-{milliseconds}"
    return Row(
        key=key,
        describe=f"{milliseconds} ms round trip to the {far.value}, through a proxy",
        place=Place(round_trip_ms=milliseconds, far=far),
        workloads=(
            Workload(
                topic=key,
                title=f"1 KB records, {milliseconds} ms round trip to the {far.value}",
                records=kilobyte,
                record_bytes=1_000,
                batch_bytes=128 * 1024,
                goals=(_AS_GOOD,),
            ),
        ),
    )


def _spread(kilobyte: int, partitions: int) -> Workload:
    return Workload(
        topic=f"partitions-{partitions}",
        title=f"1 KB records in {partitions:,} partition{'s' if partitions > 1 else ''}",
        records=kilobyte,
        record_bytes=1_000,
        batch_bytes=16 * 1024,
        partitions=partitions,
        goals=(_AS_GOOD,),
    )
