"""Producers at home on one of two clusters that mirror each other, and the judge of both."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import confluent_kafka

from connect_runtime.system import system_clock
from tests.support import eventually, kafka
from tests.support.kafka import Outgoing, Properties, Record
from tests.support.rounds import Rounds

ROUND_S = 0.1
ROUNDS_EACH = 5
"""So often a producer sends before another one, with an id of its own, takes its place."""
QUIET_S = 3.0
_WAITS_S = 60.0
_KINDS = ("plain", "idempotent", "committed", "aborted")


class Locals(Rounds):
    """Writes to every partition of one topic: records that say where they are born, one after the
    other, by producers of every kind that come and go. What was aborted says so."""

    def __init__(self, properties: Properties, topic: str, *, home: str, partitions: int):
        super().__init__(f"locals {home}")
        self._properties = properties
        self._topic = topic
        self._home = home
        self._partitions = partitions
        self._number = 0
        self.producers = 0

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            kind = _KINDS[self.producers % len(_KINDS)]
            self.producers += 1
            self._live(kind, stop)

    def _live(self, kind: str, stop: threading.Event) -> None:
        """One producer's."""
        settings: dict[str, object] = {"linger_ms": 5}
        transactional = kind in {"committed", "aborted"}
        if transactional:
            settings["transactional_id"] = f"{self._topic}-{self._home}-{kind}"
        elif kind == "idempotent":
            settings["enable_idempotence"] = True
        producer = confluent_kafka.Producer(kafka.client_config(self._properties, **settings))
        if transactional:
            kafka.init_transactions(producer)
        for _ in range(ROUNDS_EACH):
            if transactional:
                producer.begin_transaction()
            kafka.send(producer, self._topic, self._records(kind))
            kafka.flush(producer)
            if transactional:
                kafka.end_transaction(producer, commit=kind == "committed")
            self.rounds += 1
            if stop.wait(ROUND_S):
                return

    def _records(self, kind: str) -> list[Outgoing]:
        made = []
        for partition in range(self._partitions):
            self._number += 1
            value = f"{self._home} {kind} {self._number:09}".encode()
            made.append(Outgoing(key=b"k", value=value, partition=partition))
        return made


def wrong(logs: Mapping[str, Sequence[Record]]) -> list[str]:
    """What two logs of one partition, by whose home they are, got wrong; empty for nothing.

    Each is to hold its own records and all of the other's, once, those of one home in the order in
    which they stand there.
    """
    found: list[str] = []
    for home, other in (tuple(logs), tuple(reversed(tuple(logs)))):
        born = [each.content for each in logs[home] if _home(each) == home]
        there = [each.content for each in logs[other] if _home(each) == home]
        if not born:
            found.append(f"nothing was born on {home}")
        twice = [each for each, times in Counter(there).items() if times > 1]
        lost = set(born).difference(there)
        found += [f"{len(twice)} of {home} stand twice on {other}: {twice[:3]}"] if twice else []
        found += [f"{len(lost)} of {home} miss on {other}: {list(lost)[:3]}"] if lost else []
        back = [each for each, times in Counter(born).items() if times > 1]
        found += [f"{len(back)} of {home} came back: {back[:3]}"] if back else []
        if not (twice or lost or back) and born != there:
            found.append(f"those of {home} stand in another order on {other}, or others with them")
    for home, log in logs.items():
        found += [f"{each.value!r} on {home} was aborted" for each in log if _aborted(each)][:3]
        strange = [each.value for each in log if _home(each) not in logs]
        found += [f"strangers on {home}: {strange[:3]}"] if strange else []
    return found


def _home(record: Record) -> str:
    return (record.value or b"").decode().partition(" ")[0]


def _aborted(record: Record) -> bool:
    return b" aborted " in (record.value or b"")


def await_equal(
    sides: Mapping[str, Properties],
    topic: str,
    partitions: int,
    *,
    told: Callable[[], str],
    deadline_s: float = 60.0,
) -> None:
    """Once nobody writes any more each side has all, once; and it stays so. `told`: what is to be
    said besides when it does not come about."""

    def found() -> list[str]:
        logs = committed(sides, topic, range(partitions))
        return [each for pair in logs for each in wrong(pair)]

    def ends() -> list[int]:
        return [
            kafka.offsets(properties, topic, number)[1]
            for properties in sides.values()
            for number in range(partitions)
        ]

    eventually.eventually(
        lambda: not found(), deadline_s, lambda: f"{found()}\n{told()}", interval_s=0.5
    )
    before = ends()
    system_clock.wait_until(lambda: False, timeout_s=QUIET_S, interval_s=QUIET_S)
    assert ends() == before, "it goes round and round"
    assert found() == []


def committed(
    sides: Mapping[str, Properties], topic: str, partitions: Iterable[int]
) -> list[dict[str, list[Record]]]:
    """Each partition as those who read committed records see it on both sides."""
    return [
        {
            home: kafka.read_partition(properties, topic, number, isolation="read_committed")
            for home, properties in sides.items()
        }
        for number in partitions
    ]
