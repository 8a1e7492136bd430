"""Groups of a mirrored topic go on on the target: which records does each of them read again?

Both contestants mirror the same kinds of traffic with the same `mm2.properties`. Some groups stand
all over a topic; others consume it while records come, and stop in the midst. When checkpoints have
come to rest, each group's newest one is judged by both logs alone (`offset_oracle`).
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import confluent_kafka

from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.offsets.offset_translation import EarlierOffset
from tests.bench import figures, follow_report, following, rows
from tests.bench.contest import FailedError, Running
from tests.bench.contestants import Contestant, Flow, JavaMirrorMaker, Mm2Properties
from tests.bench.places import Clusters, Place
from tests.bench.results import Rereading, Results
from tests.support import checkpoints, kafka
from tests.support.kafka import Outgoing, Properties
from tests.support.offset_oracle import Oracle, Verdict

Say = Callable[[str], None]

_TUNING = {
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "5",
    "emit.heartbeats.enabled": "false",
    "sync.topic.configs.enabled": "false",  # the mirror of a compacted topic keeps what came
    "{target}.offset.flush.interval.ms": "5000",
}
JAVA = JavaMirrorMaker(key="java", title="Java MirrorMaker 2", tuning=_TUNING)
OURS = Mm2Properties(like=JAVA, engine="inline")
WHO: tuple[Contestant, ...] = (JAVA, OURS)

_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
}
_LIVE = "live"
_ALIVE_S = 20.0
_LIVE_GROUPS = 5
_REST_S = 20.0
_LIMIT_S = 300.0
_ANSWER_S = 60.0
_ANY = 2**62
_CLOCK = SystemClock()


def run(
    row: rows.Rereading,
    *,
    who: Sequence[Contestant] = WHO,
    rounds: int,
    measured: Results,
    folder: Path,
    say: Say,
) -> None:
    """Everybody once each round, on clusters of its own."""
    for number in range(1, rounds + 1):
        for contestant in who:
            where = folder / f"reread-{contestant.key}-{number}"
            where.mkdir()
            with Clusters(Place()) as clusters:
                one = _Reading(row, contestant, clusters, folder=where, number=number)
                for found in one.run(say):
                    measured.add(found)
                    say(told(found))


class _Reading:
    """One contestant mirrors all kinds of traffic."""

    def __init__(
        self,
        row: rows.Rereading,
        contestant: Contestant,
        clusters: Clusters,
        *,
        folder: Path,
        number: int,
    ) -> None:
        self._row = row
        self._contestant = contestant
        self._clusters = clusters
        self._source = clusters.source.client_properties()
        self._target = clusters.target.client_properties()
        self._folder = folder
        self._number = number
        self._flow = Flow(
            source="a",
            target="b",
            source_properties=self._source,
            target_properties=self._target,
            topics=tuple(follow_report.CASES),
        )
        self._at: dict[str, dict[str, int]] = {case: {} for case in follow_report.CASES}

    def run(self, say: Say) -> list[Rereading]:
        blank = {
            case: Rereading(contestant=self._contestant.key, case=case, round=self._number)
            for case in follow_report.CASES
        }
        self._write()
        say("all is written")
        try:
            with Running(self._contestant, self._flow, self._folder) as running:
                self._await(running, "all records", self._mirrored)
                self._live(running)
                self._await(running, "all records of those who consume", self._mirrored)
                self._rest(running)
        except FailedError as failed:
            say(failed.log)
            return [dataclasses.replace(each, fault=str(failed)) for each in blank.values()]
        points = {
            (each.group, each.partition.topic): each.downstream
            for each in map(checkpoints.decoded, checkpoints.read(self._target, self._flow.source))
        }
        return [self._judged(each, points) for each in blank.values()]

    # traffic

    def _write(self) -> None:
        source, count = self._source, self._row.records
        for case in follow_report.CASES:
            config = _COMPACTED if case == "compacted" else {}
            kafka.create_topic(source, case, config=config)
        values = [b"%d" % each for each in range(count)]
        kafka.produce(source, "plain", [Outgoing(value=each) for each in values])
        self._transact(values[: count // 4])
        keyed = [
            Outgoing(value=each, key=b"%d" % (number % (count // 4)))
            for number, each in enumerate(values)
        ]
        kafka.produce(source, "compacted", keyed[: count * 3 // 4])
        self._clean()
        kafka.produce(source, "compacted", keyed[count * 3 // 4 :])
        for case in follow_report.CASES:
            if case != _LIVE:
                self._place(case)

    def _transact(self, values: Sequence[bytes]) -> None:
        """Ten records each; one of twenty is aborted."""
        config = kafka.client_config(self._source, transactional_id="reread")
        producer = confluent_kafka.Producer(config)
        producer.init_transactions(_ANSWER_S)
        for number, at in enumerate(range(0, len(values), 10)):
            producer.begin_transaction()
            some = [Outgoing(value=each) for each in values[at : at + 10]]
            kafka.send(producer, "transactions", some)
            kafka.flush(producer)
            if number % 20 == 7:
                producer.abort_transaction(_ANSWER_S)
            else:
                producer.commit_transaction(_ANSWER_S)

    def _clean(self) -> None:
        """Until the cleaner has taken something: it looks every 15 seconds."""
        (_, end) = kafka.offsets(self._source, "compacted")
        rolls = (b"roll-%d" % number for number in itertools.count())

        def gaps() -> bool:
            value = next(rolls)
            kafka.produce(self._source, "compacted", [Outgoing(value=value, key=value)])
            return len(_identities(self._source, "compacted")) < end

        if not system_clock.wait_until(gaps, timeout_s=_LIMIT_S, interval_s=2.0):
            raise RuntimeError("the cleaner took nothing")

    def _place(self, case: str) -> None:
        """Groups from the beginning to the end."""
        there = sorted(_identities(self._source, case))
        (_, end) = kafka.offsets(self._source, case)
        administrator = kafka.admin_client(self._source)
        for number in range(1, self._row.groups + 1):
            index = number * len(there) // self._row.groups
            offset = end if index >= len(there) else there[index]
            group = f"{case}-{number:02}"
            following.commit(administrator, [group], case, partitions=1, offset=offset)
            self._at[case][group] = offset

    def _live(self, running: Running) -> None:
        """Records come, groups consume them and commit, and end one after the other."""
        producer = confluent_kafka.Producer(kafka.client_config(self._source, linger_ms=5))
        consumers = {f"{_LIVE}-{number}": self._consumer(number) for number in range(_LIVE_GROUPS)}
        begun_s = _CLOCK.now_s()
        ends = {
            group: begun_s + _ALIVE_S * (number + 1) / _LIVE_GROUPS
            for number, group in enumerate(consumers)
        }
        numbers = itertools.count()

        def over() -> bool:
            running.check()
            for _ in range(100):
                producer.produce(_LIVE, b"%d" % next(numbers))
            producer.poll(0)
            for group, consumer in list(consumers.items()):
                self._consume(group, consumer)
                if _CLOCK.now_s() >= ends[group]:
                    consumers.pop(group).close()
            return not consumers

        try:
            if not system_clock.wait_until(over, timeout_s=_LIMIT_S, interval_s=0.1):
                raise running.failure("consumers did not come to their end")
        finally:
            for each in consumers.values():
                each.close()
        kafka.flush(producer)

    def _consumer(self, number: int) -> confluent_kafka.Consumer:
        config = kafka.client_config(
            self._source,
            group_id=f"{_LIVE}-{number}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        consumer = confluent_kafka.Consumer(config)
        consumer.subscribe([_LIVE])
        return consumer

    def _consume(self, group: str, consumer: confluent_kafka.Consumer) -> None:
        read = [each for each in consumer.consume(37, timeout=0.02) if each.error() is None]
        if read:
            consumer.commit(message=read[-1], asynchronous=False)
            self._at[_LIVE][group] = (read[-1].offset() or 0) + 1

    # waiting

    def _mirrored(self) -> bool:
        return all(
            len(_identities(self._target, self._flow.mirrored(case)))
            >= len(_identities(self._source, case))
            for case in follow_report.CASES
        )

    def _rest(self, running: Running) -> None:
        """Until no checkpoint has come for a while."""
        state = [0, _CLOCK.now_s()]

        def at_rest() -> bool:
            (_, end) = kafka.offsets(self._target, f"{self._flow.source}.checkpoints.internal")
            if end != state[0]:
                state[:] = [end, _CLOCK.now_s()]
            return end > 0 and _CLOCK.now_s() - state[1] > _REST_S

        self._await(running, "checkpoints at rest", at_rest)

    def _await(self, running: Running, what: str, condition: Callable[[], bool]) -> None:
        def holds() -> bool:
            running.check()
            try:
                return condition()
            except confluent_kafka.KafkaException:  # a topic that is not there yet
                return False

        if not system_clock.wait_until(holds, timeout_s=_LIMIT_S, interval_s=1.0):
            raise running.failure(f"no sign of {what} within {_LIMIT_S:.0f} s")

    # the verdict

    def _judged(self, blank: Rereading, points: Mapping[tuple[str, str], int]) -> Rereading:
        case = blank.case
        mirror = self._flow.mirrored(case)
        oracle = Oracle(
            _identities(self._source, case),
            _identities(self._target, mirror),
            source_end=kafka.offsets(self._source, case)[1],
            target_end=kafka.offsets(self._target, mirror)[1],
        )
        again: list[float] = []
        untold = 0
        fault = ""
        for group, offset in self._at[case].items():
            place = points.get((group, mirror))
            untold += place is None
            verdict = judge(oracle, offset, place)
            again.append(float(verdict.again))
            if verdict.wrong:
                fault = fault or f"{group} misses records: {verdict}"
        return dataclasses.replace(
            blank,
            fault=fault,
            groups=float(len(again)),
            untold=float(untold),
            median=statistics.median(again),
            most=max(again),
            total=sum(again),
        )


def judge(oracle: Oracle, offset: int, place: int | None) -> Verdict:
    """Of a group at `offset` on the source that goes on at `place`, or begins anew."""
    answer = EarlierOffset(downstream=place or 0, reread_max=_ANY)
    return oracle.judge(lambda _: answer, [offset])


def _identities(client: Properties, topic: str) -> dict[int, bytes]:
    """What each offset holds, for those who read what was committed."""
    return {
        each.offset: (each.key or b"") + b"/" + (each.value or b"")
        for each in kafka.read_partition(client, topic, isolation="read_committed")
    }


def told(one: Rereading) -> str:
    """One line for people who wait."""
    head = f"round {one.round}, {one.contestant}, {one.case}"
    if one.fault or one.total is None:
        return f"{head}: FAULT: {one.fault}"
    return (
        f"{head}: {figures.number(one.groups or 0)} groups read {figures.number(one.total)} "
        f"records again, one {figures.number(one.most or 0)} at most"
    )
