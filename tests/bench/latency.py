"""How old a record is when an ordinary client on the target gets it, at a steady rate.

Sender and reader are processes of their own: neither may wait for the other's interpreter. Both
read the machine's monotonic clock. Run as scripts:

    python -m tests.bench.latency send SETTINGS    prints how many records were acknowledged
    python -m tests.bench.latency read SETTINGS    "ready", then one line of JSON: ages in ms

`SETTINGS` is JSON (`Leg`).
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import confluent_kafka

from connect_runtime.system.system_clock import SystemClock
from tests.bench import figures, workloads
from tests.bench.script import Script
from tests.support import kafka

_HEAD = struct.Struct(">QI")  # when it was sent, monotonic ns; its number
_READY = "ready"
_READY_S = 30.0
_SILENCE_S = 10.0
_GRACE_S = 40.0
_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Milliseconds from sending to reading; `lost` records never came."""

    p50_ms: float
    p99_ms: float
    p999_ms: float
    samples: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """From `topic` on the source to `mirrored`, which must be there, on the target."""

    source: Mapping[str, str]
    target: Mapping[str, str]
    topic: str
    mirrored: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One end of the way. The first `warm_up` of `records` are not measured."""

    properties: Mapping[str, str]
    topic: str
    records: int
    warm_up: int
    per_second: float


def measure(way: Way, *, seconds: float, warm_up_s: float, per_second: float) -> Latency:
    """Ages of `seconds` of records, after a warm-up. `RuntimeError` when a side fails."""
    warm_up = int(warm_up_s * per_second)
    records = warm_up + int(seconds * per_second)
    sending, reading = (
        Leg(
            properties=properties,
            topic=topic,
            records=records,
            warm_up=warm_up,
            per_second=per_second,
        )
        for properties, topic in ((way.source, way.topic), (way.target, way.mirrored))
    )
    with tempfile.TemporaryDirectory(prefix="mm2-bench-") as name:
        folder = Path(name)
        reader = Script("latency", "read", json.dumps(asdict(reading)), folder=folder)
        reader.first_line()
        sender = Script("latency", "send", json.dumps(asdict(sending)), folder=folder)
        limit_s = records / per_second + _GRACE_S
        acknowledged = int(sender.finish(limit_s).split()[-1])
        ages_ms: list[float] = json.loads(reader.finish(limit_s).splitlines()[-1])
    return _summary(ages_ms, expected=acknowledged - warm_up)


def _summary(ages_ms: list[float], *, expected: int) -> Latency:
    if not ages_ms:
        raise RuntimeError("measuring latency: no record arrived")
    return Latency(
        p50_ms=figures.percentile(ages_ms, 0.5),
        p99_ms=figures.percentile(ages_ms, 0.99),
        p999_ms=figures.percentile(ages_ms, 0.999),
        samples=len(ages_ms),
        lost=expected - len(ages_ms),
    )


# What runs in the two processes


def send(leg: Leg) -> int:
    """Send at the steady rate; a record that is late is sent at once and dated when it is sent."""
    producer = confluent_kafka.Producer(
        kafka.client_config(leg.properties, linger_ms=0, acks="all", enable_idempotence=True)
    )
    acknowledged = 0

    def note(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        nonlocal acknowledged
        if error is not None:
            raise confluent_kafka.KafkaException(error)
        acknowledged += 1

    padding = b"." * (workloads.LATENCY_RECORD_BYTES - _HEAD.size)
    begin_s = _CLOCK.now_s()
    for number in range(leg.records):
        while (wait_s := begin_s + number / leg.per_second - _CLOCK.now_s()) > 0:
            producer.poll(wait_s)
        producer.produce(
            leg.topic,
            value=_HEAD.pack(int(_CLOCK.now_s() * 1e9), number) + padding,
            partition=number % workloads.PARTITIONS,
            on_delivery=note,
        )
    kafka.flush(producer)
    return acknowledged


def read(leg: Leg) -> list[float]:
    """Ages in ms, in order of arrival, of all that are measured; ends when the last one came.

    Without the last one it ends after 10 s of silence.
    """
    consumer = confluent_kafka.Consumer(
        kafka.client_config(
            leg.properties,
            group_id="bench-latency",
            enable_auto_commit=False,
            auto_offset_reset="error",
            check_crcs=True,
        )
    )
    _begin_at_end(consumer, leg.topic)
    sys.stdout.write(f"{_READY}\n")
    sys.stdout.flush()
    ages: dict[int, float] = {}
    heard_s = _CLOCK.now_s() + _READY_S
    while len(ages) < leg.records and _CLOCK.now_s() < heard_s + _SILENCE_S:
        message = consumer.poll(0.2)
        if message is None:
            continue
        now_ns = int(_CLOCK.now_s() * 1e9)
        if message.error() is not None:
            raise confluent_kafka.KafkaException(message.error())
        value = message.value()
        assert value is not None, "the sender always gives one"
        sent_ns, number = _HEAD.unpack_from(value)
        ages.setdefault(number, (now_ns - sent_ns) / 1e6)
        heard_s = now_ns / 1e9
    consumer.close()
    return [age for number, age in ages.items() if number >= leg.warm_up]


def _begin_at_end(consumer: confluent_kafka.Consumer, topic: str) -> None:
    """Exactly the records that are sent from now on."""
    begin = []
    for number in range(workloads.PARTITIONS):
        place = confluent_kafka.TopicPartition(topic, number)
        _, place.offset = consumer.get_watermark_offsets(place, timeout=30)
        begin.append(place)
    consumer.assign(begin)


def main(arguments: list[str]) -> None:
    role, settings = arguments
    given: dict[str, Any] = json.loads(settings)
    leg = Leg(**given)
    answer = json.dumps(read(leg)) if role == "read" else str(send(leg))
    sys.stdout.write(f"{answer}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
