"""One random schedule from one seed: traffic and faults, then calm, then the verdict."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from mm2.replication import batch_size_limits
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.partition_state import PartitionPhase
from tests.model.delivery import judge, weather
from tests.model.delivery.events import UnsettledError
from tests.model.delivery.judge import Kind
from tests.model.delivery.owner import MakeCopy, Owner
from tests.model.delivery.weather import Weather
from tests.model.delivery.world import World

HEALED_WITHIN_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a schedule; `violations` is empty when every promise held."""

    seed: int
    violations: list[str]
    steps: int
    state: str
    trace: list[str]

    @property
    def kinds(self) -> set[Kind]:
        return set(map(judge.kind_of, self.violations))


def run(
    seed: int,
    *,
    make: MakeCopy = PartitionReplicator,
    conditions: Callable[[Random], Weather] = weather.draw,
    tracing: bool = False,
) -> Outcome:
    """Play the schedule of this seed. The same seed always plays the same one."""
    drawn = conditions(Random(f"weather {seed}"))
    around = World(f"events {seed}", drawn, make=make, tracing=tracing)
    around.events.note("weather", drawn)
    violations: list[str] = []
    whole = batch_size_limits.DECODE_PART_RECORDS
    batch_size_limits.DECODE_PART_RECORDS = drawn.part_records or whole
    try:
        _Schedule(around).play()
        violations = judge.judge(around)
    except AssertionError as error:
        if not tracing and make is PartitionReplicator:
            raise AssertionError(f"seed {seed}: {error}") from error
        unsettled = isinstance(error, UnsettledError)
        kind = Kind.UNSETTLED if unsettled else Kind.INVARIANT
        violations = [f"{kind}: {error!r}"]
    finally:
        batch_size_limits.DECODE_PART_RECORDS = whole
    state = ", ".join(_state(each) for each in around.owners)
    return Outcome(
        seed=seed,
        violations=violations,
        steps=around.events.steps,
        state=state,
        trace=around.events.trace,
    )


def _state(each: Owner) -> str:
    phase = each.machine.state.phase.value if each.alive else "dead"
    return f"{each.name} {phase}"


class _Schedule:
    def __init__(self, around: World) -> None:
        self._world = around
        self._events = around.events
        self._random = around.events.random
        self._weather = around.weather

    def play(self) -> None:
        random, weather_ = self._random, self._weather
        bursts = random.randint(2, 4) if weather_.days else 1
        if weather_.java == "turns" and self._world.java.random.random() < 0.7:
            self._java_turn()
        else:
            self._world.start_owner()
        for number in range(bursts):
            if number:
                self._events.run(self._events.now_s + random.uniform(0.2, 3.0) * weather.DAY_S)
            self._burst(weather_.batches // bursts + 1)
        self._heal()

    def _burst(self, batches: int) -> None:
        length_s = self._random.choice((2.0, 10.0, 40.0))
        moments = [self._random.uniform(0.0, length_s) for _ in range(3)]
        together = self._random.random() < 0.5
        for _ in range(batches):
            at_s = self._random.uniform(0.0, length_s)
            if together:
                at_s = self._random.choice(moments)
            self._events.after(at_s, self._world.source.write_something)
        if self._weather.two_way:
            for _ in range(batches):
                at_s = self._random.uniform(0.0, length_s)
                self._events.after(at_s, self._world.opposite.something)
        if self._weather.shared:
            for _ in range(3):
                self._events.after(self._random.uniform(0.0, length_s), self._foreign_write)
        kinds = self._kinds()
        for _ in range(self._random.randint(1, 7)):
            fault = self._random.choice(kinds)
            if self._random.random() < 0.5:
                fault = functools.partial(self._when_busy, fault)
            self._events.after(self._random.uniform(0.0, length_s), fault)
        self._events.run(self._events.now_s + length_s)

    def _foreign_write(self) -> None:
        from tests.fakes import batches
        from tests.fakes.batches import Record

        record = Record(value=b"foreign", timestamp=self._events.wall_ms())
        self._world.target.produce(
            batches.data([record]), transactional_id=False, reply=lambda _code, _base: None
        )

    def _kinds(self) -> list[Callable[[], None]]:
        weather_, target, source = self._weather, self._world.target, self._world.source
        table: list[tuple[bool, int, Callable[[], None]]] = [
            (True, 1, self._start_another),
            (True, 1, self._stop_one),
            (weather_.crashes, 3, self._crash),
            (weather_.freezes, 3, self._freeze),
            (weather_.clean_elections, 2, lambda: self._elect(unclean=False)),
            (weather_.unclean_elections, 3, lambda: self._elect(unclean=True)),
            (weather_.restarts, 1, target.restart_broker),
            (weather_.target_retention, 1, target.delete_head),
            (weather_.source_retention, 2, source.delete_head),
            (weather_.source_truncation, 1, source.truncate),
            (weather_.source_elections, 2, source.elect),
            (weather_.compaction, 3, source.compact),
            (weather_.compaction, 2, target.compact),
            (weather_.requests, 2, self._request_new_era),
            (weather_.java == "turns", 8, self._java_turn),
            (weather_.pauses, 3, self._pause_amid_parts),
            (weather_.pauses, 5, self._restart_amid_parts),
            (weather_.no_room, 3, self._lose_room),
            (
                weather_.unfenced and weather_.rights_change,
                6,
                self._world.coordinator.change_rights,
            ),
        ]
        return [kind for on, weight, kind in table if on for _ in range(weight)]

    # Faults

    def _some_owner(self) -> Owner | None:
        running = self._world.running
        return self._random.choice(running) if running else None

    def _start_another(self) -> None:
        if self._world.java_runs and not self._weather.overlaps:
            return
        if len(self._world.running) < self._weather.owners:
            self._world.start_owner()

    def _when_busy(self, fault: Callable[[], None], *, tries: int = 100) -> None:
        """Now, or as soon as somebody has batches under way: there it hurts most."""
        busy = any(each.machine.send_queue.queued_batches > 0 for each in self._world.running)
        if busy or not tries or self._random.random() < 0.02:
            fault()
        else:
            wait_s = self._random.uniform(0.0, 0.02)
            self._events.after(wait_s, lambda: self._when_busy(fault, tries=tries - 1))

    def _stop_one(self) -> None:
        stopped = self._some_owner()
        if stopped is None or stopped.frozen:
            return
        stopped.close()
        self._events.after(self._random.uniform(0.0, 20.0), self._start_another)

    def _crash(self) -> None:
        crashed = self._some_owner()
        if crashed is None:
            return
        crashed.crash()
        same = self._random.random() < 0.3
        self._events.after(
            self._random.choice((0.0, 0.05, 1.0, 10.0)),
            lambda: self._restart(crashed.worker if same else None),
        )

    def _restart(self, worker: bytes | None) -> None:
        if self._world.java_runs and not self._weather.overlaps:
            return
        if len(self._world.running) < self._weather.owners:
            self._world.start_owner(worker=worker)

    def _freeze(self) -> None:
        frozen = self._some_owner()
        if frozen is None or frozen.frozen:
            return
        frozen.freeze()
        length_s = self._random.choice((0.05, 0.5, 3.0, 20.0, 70.0))
        if self._weather.days and self._random.random() < 0.5:
            length_s = self._random.uniform(0.3, 3.0) * weather.DAY_S
        self._events.after(length_s, frozen.thaw)
        if self._random.random() < 0.7:
            self._events.after(
                self._random.uniform(0.0, 2 * length_s),
                lambda: self._restart(frozen.worker if self._random.random() < 0.3 else None),
            )

    def _amid(self, amid: Callable[[Owner], bool], fault: Callable[[Owner], None]) -> None:
        """As soon as that is so of an owner; a while later, of any."""
        tries = 300

        def look() -> None:
            nonlocal tries
            tries -= 1
            found = [each for each in self._world.running if amid(each)]
            hit = self._random.choice(found) if found else None
            if hit is None and tries:
                self._events.after(self._random.uniform(0.0, 0.02), look)
            elif (hit := hit or self._some_owner()) is not None:
                fault(hit)

        look()

    def _pause_amid_parts(self) -> None:
        length_s = self._random.choice((0.0, 0.3, 5.0, 90.0))

        def pause(hit: Owner) -> None:
            hit.pause(on=True)
            self._events.after(length_s, lambda: hit.pause(on=False))

        self._amid(lambda each: each.is_amid_parts, pause)

    def _restart_amid_parts(self) -> None:
        """Who comes next starts inside the batch, and is paused before it gets to its place."""

        def crash(hit: Owner) -> None:
            hit.crash()
            self._restart(hit.worker)
            self._amid(lambda each: each.is_before_its_place, pause)

        def pause(hit: Owner) -> None:
            hit.pause(on=True)
            self._events.after(0.3, lambda: hit.pause(on=False))

        self._amid(lambda each: each.has_sent_parts, crash)

    def _lose_room(self) -> None:
        hit = self._some_owner()
        if hit is not None:
            hit.lose_room(self._random.choice((0.1, 3.0, 40.0, 200.0)))

    def _elect(self, *, unclean: bool) -> None:
        self._world.target.elect(unclean=unclean)
        for each in self._world.owners:
            if self._random.random() < 0.7:
                each.deliver_after(self._random.choice((0.001, 0.05, 3.0)), each.hear_of_leader)

    def _request_new_era(self) -> None:
        for each in self._world.running:
            each.crash()
        number = self._random.randrange(1 << 30)
        position = self._random.choice(("earliest", "latest", str(self._events.wall_ms() - 5000)))
        self._world.log.request(f"request-{number}", position)
        self._events.after(self._random.uniform(0.0, 2.0), self._start_another)

    # Java

    def _java_turn(self) -> None:
        """All of ours end, it runs for a while, and ends one way or the other."""
        random = self._world.java.random
        if self._world.java_runs:
            return
        for each in self._world.running:
            if each.frozen or random.random() < 0.5:
                each.crash()
            else:
                each.close()
        begins_s = random.choice((0.5, 10.0))
        self._events.after(begins_s, self._begin_java)
        self._events.after(begins_s + random.choice((0.3, 2.0, 12.0)), self._end_java)

    def _begin_java(self) -> None:
        if not self._weather.overlaps and not self._world.network.calm:
            for each in self._world.running:
                each.crash()
        if not self._world.java_runs and not self._world.network.calm:
            self._world.start_java()

    def _end_java(self) -> None:
        random, writer = self._world.java.random, self._world.java_writer
        if writer is None or not writer.alive:
            return
        if self._weather.overlaps:
            self._start_another()
            self._events.after(random.uniform(0.0, 5.0), writer.crash)
            return
        clean = random.random() < 0.4
        if clean:
            writer.stop()
        else:
            writer.crash()
        if not clean and random.random() < 0.3:
            self._events.after(random.uniform(0.0, 1.0), self._java_again)
            return
        self._events.after(random.uniform(11.0, 15.0), self._start_another)

    def _java_again(self) -> None:
        """It was killed, and comes back behind what it had stored."""
        self._begin_java()
        self._events.after(self._world.java.random.choice((0.3, 2.0, 12.0)), self._end_java)

    # The end

    def _heal(self) -> None:
        """Faults end. Somebody must finish; then what was late arrives, then a last bit."""
        self._world.calm_down()
        if self._world.java_writer is not None:
            self._world.java_writer.crash()
            self._events.run(self._events.now_s + 20.0)
        for each in self._world.owners:
            late = self._random.random() < 0.3
            self._events.after(self._random.uniform(0.0, 5.0) + 400.0 * late, each.thaw)
        self._let_finish()
        self._events.run(self._events.now_s + (3 * weather.DAY_S if self._weather.days else 500.0))
        self._world.source.write_something()
        for _ in range(3):
            self._world.source.write_plain()
        self._world.source.end_all_transactions()
        self._let_finish()
        self._world.finished = any(each.caught_up for each in self._world.running)
        self._events.run(self._events.now_s + 20.0)
        takes = self._world.coordinator.asked
        self._events.run(self._events.now_s + 20.0)
        self._world.late_takes = self._world.coordinator.asked - takes
        for each in self._world.running:
            if each.machine.state.phase is not PartitionPhase.HALTED:
                each.close()
        self._events.run(self._events.now_s + 5.0)

    def _let_finish(self) -> None:
        """Until a copy has caught up; if none is left, somebody starts the flow (thrice)."""
        for _ in range(4):
            if not self._world.running and not self._stopped_for_good():
                self._world.start_owner()
            until_s = self._events.now_s + HEALED_WITHIN_S
            self._events.run(until_s, enough=self._finished)
            if self._world.running or self._stopped_for_good():
                return

    def _finished(self) -> bool:
        running = self._world.running
        return not running or any(each.caught_up for each in running)

    def _stopped_for_good(self) -> bool:
        """A copy that stands still for ever would do so again."""
        alive = [each for each in self._world.owners if each.alive]
        return any(each.machine.state.phase is PartitionPhase.HALTED for each in alive)
