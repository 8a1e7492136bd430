"""Every odd topic: its settings, its writer, and what has to be seen in its log afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mm2.sandbox.traffic.odd import compacted, old_formats, writers
from mm2.sandbox.traffic.odd import desk as desks
from mm2.sandbox.traffic.odd.anatomy import CODECS, Oddity

_NEW = frozenset(CODECS)
_OLD = _NEW - {"zstd"}
_NONE = frozenset({"none"})
_ANY_FUTURE = {"message.timestamp.after.max.ms": "9223372036854775807"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OddTopic:
    """One kind. `needs` is a broker release, `2.8` for formats before v2.

    `afterwards`: settings that it loses once it is written. `cleaned`: the writer is done when the
    cleaner has left one record of each key. `restamped`: readers of the source see another
    timestamp type than CreateTime, and a mirror keeps the time, not the type.
    """

    name: str
    describe: str
    write: Callable[[desks.Desk], None]
    seen: frozenset[Oddity]
    codecs: frozenset[str] = _NONE
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    afterwards: tuple[str, ...] = ()
    cleaned: bool = False
    restamped: bool = False
    future: bool = False


def _old(version: str) -> dict[str, str]:
    return {old_formats.SETTING: version}


TODAY = (
    OddTopic(
        name="codecs",
        describe="all codecs in one partition",
        write=writers.codecs,
        seen=frozenset(),
        codecs=_NEW,
        partitions=2,
    ),
    OddTopic(
        name="shapes",
        describe="tombstones, null keys, headers of all sorts",
        write=writers.shapes,
        seen=frozenset(),
        codecs=frozenset({"none", "zstd"}),
        partitions=3,
    ),
    OddTopic(
        name="transactions",
        describe="interleaved transactions, committed and aborted",
        write=writers.committed_and_aborted,
        seen=frozenset({Oddity.TRANSACTIONAL, Oddity.MARKER}),
        codecs=_NEW - {"snappy"},
        partitions=2,
    ),
    OddTopic(
        name="large",
        describe="records of 10 MB",
        write=writers.large,
        seen=frozenset({Oddity.HUGE_RECORD, Oddity.SINGLE}),
        codecs=frozenset({"none", "gzip"}),
        config={"max.message.bytes": str(writers.LARGE_MESSAGE_BYTES)},
    ),
    OddTopic(
        name="append-time",
        describe="dated by the broker",
        write=writers.append_time,
        seen=frozenset({Oddity.APPEND_TIME, Oddity.SINGLE}),
        codecs=_NEW,
        partitions=2,
        config={"message.timestamp.type": "LogAppendTime"},
        restamped=True,
    ),
    OddTopic(
        name="past",
        describe="timestamps of 2001, of 1970, and none",
        write=writers.past,
        seen=frozenset({Oddity.NO_TIME}),
        codecs=_NEW,
        partitions=2,
    ),
    OddTopic(
        name="future",
        describe="timestamps of tomorrow and of the year 9999",
        write=writers.future,
        seen=frozenset(),
        codecs=_NEW,
        partitions=2,
        future=True,
    ),
    OddTopic(
        name="single",
        describe="batches of one record, plain and compressed",
        write=writers.single,
        seen=frozenset({Oddity.SINGLE}),
        codecs=_NEW,
        partitions=2,
    ),
    OddTopic(
        name="tiny",
        describe="very many batches of one to three records",
        write=writers.tiny,
        seen=frozenset({Oddity.SINGLE}),
    ),
    OddTopic(
        name="big-batches",
        describe="batches of 4 MB with many records, larger than the topic allows today",
        write=writers.big_batches,
        seen=frozenset({Oddity.LARGE}),
        codecs=frozenset({"none", "lz4", "zstd"}),
        config={"max.message.bytes": str(writers.BIG_BATCH_LIMIT_BYTES)},
        afterwards=("max.message.bytes",),
    ),
    OddTopic(
        name="by-hand",
        describe="legal batches that no client writes",
        write=writers.by_hand,
        seen=frozenset({Oddity.SINGLE, Oddity.HORIZON}),
        codecs=frozenset({"none", "gzip"}),
    ),
    OddTopic(
        name="compacted",
        describe="compacted: gaps, tombstones and emptied batches in every codec",
        write=compacted.plain,
        seen=frozenset({Oddity.GAPS, Oddity.HOLES, Oddity.EMPTY}),
        codecs=_NEW,
        partitions=2,
        config=compacted.CONFIG,
        cleaned=True,
    ),
    OddTopic(
        name="compacted-transactions",
        describe="compacted transactions, every third aborted",
        write=compacted.transactional,
        seen=frozenset({Oddity.GAPS, Oddity.HOLES, Oddity.MARKER}),
        partitions=2,
        config=compacted.CONFIG,
        cleaned=True,
    ),
)
BEFORE_3_0 = (
    OddTopic(
        name="v0",
        describe="format v0, plain and as wrappers",
        write=old_formats.batches,
        seen=frozenset({Oddity.V0}),
        codecs=_OLD,
        config=_old(old_formats.V0),
        restamped=True,
    ),
    OddTopic(
        name="v1",
        describe="format v1, plain and as wrappers",
        write=old_formats.batches,
        seen=frozenset({Oddity.V1}),
        codecs=_OLD,
        config=_old(old_formats.V1),
    ),
    OddTopic(
        name="v1-append-time",
        describe="format v1, dated by the broker",
        write=old_formats.batches,
        seen=frozenset({Oddity.V1, Oddity.APPEND_TIME}),
        codecs=_OLD,
        config=_old(old_formats.V1) | {"message.timestamp.type": "LogAppendTime"},
        restamped=True,
    ),
    OddTopic(
        name="all-formats",
        describe="v0, v1 and v2 in one partition",
        write=old_formats.changing,
        seen=frozenset({Oddity.V0, Oddity.V1}),
        codecs=_OLD,
        config=_old(old_formats.V0),
        restamped=True,
    ),
    OddTopic(
        name="v0-compacted",
        describe="compacted, format v0: wrappers with gaps",
        write=compacted.old_format,
        seen=frozenset({Oddity.V0}),
        codecs=_OLD,
        config=_old(old_formats.V0) | compacted.CONFIG,
        cleaned=True,
        restamped=True,
    ),
    OddTopic(
        name="v1-compacted",
        describe="compacted, format v1: wrappers with gaps",
        write=compacted.old_format,
        seen=frozenset({Oddity.V1}),
        codecs=_OLD,
        config=_old(old_formats.V1) | compacted.CONFIG,
        cleaned=True,
    ),
)


def of_release(version: tuple[int, int]) -> tuple[OddTopic, ...]:
    """What a broker of this release (major, minor) can be made to hold."""
    return (*TODAY, *BEFORE_3_0) if version < (3, 0) else TODAY


def config_of(one: OddTopic, version: tuple[int, int]) -> dict[str, str]:
    """Its settings, as this release spells them; before 3.6 any future is allowed by default."""
    return {**one.config, **(_ANY_FUTURE if one.future and version >= (3, 6) else {})}
