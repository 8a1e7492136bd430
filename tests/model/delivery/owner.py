"""One process that copies: the real machine, and a stand-in for the loop that drives it.

It may crash, freeze and thaw at any step. What it sent before keeps travelling; what is sent to it
waits until it thaws, or is lost with it.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from mm2.formats import record_batch
from mm2.replication import partition_lag
from mm2.replication.batch_size_limits import BatchMergeLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    AppendToFlowState,
    CommitTransaction,
    Delay,
    EpochEnd,
    FetchedRecords,
    FindEpochEnd,
    FindOpenTransactions,
    FindReverseFlowProducers,
    FindSourceOffset,
    FindTargetEnd,
    InitIdempotentProducer,
    InitProducer,
    Instruction,
    InstructionAnswer,
    InstructionDone,
    InstructionRefused,
    NoResponse,
    OpenTransaction,
    OpenTransactions,
    ProducerIdentity,
    ReadRecoveredState,
    ReadSource,
    ReadTarget,
    RefreshTargetMetadata,
    RequestAcquisition,
    ReverseFlowProducers,
    SourceLogOffset,
    TargetEnd,
)
from tests.model.delivery import target_log
from tests.model.delivery.java_topics import Told
from tests.model.delivery.source_log import Diverged, Fetched, Refusal

if TYPE_CHECKING:
    from tests.model.delivery.world import World


TIMEOUT_S = 15.0
QUEUE_MAX = 4
LONG_POLL_S = 0.5
STREAM_DELAY_MAX_S = 40.0
"""Longer than that and the worker would end its copy."""
HOPELESS = (HaltCause.SOURCE_TRUNCATED, HaltCause.TAIL_MISMATCH)
DENIED = InstructionRefused(code=29, message="TOPIC_AUTHORIZATION_FAILED")
NOT_MINE = InstructionRefused(code=-1, message="another copy of this worker has it")

MakeCopy = Callable[..., PartitionReplicator]


class Channel:
    """A connection to one broker: requests arrive in order, answers come back in order."""

    def __init__(self, owner: Owner, leader: int) -> None:
        self.leader = leader
        self.sent_at: deque[float] = deque()
        self.arrives_until = float("inf")
        self._owner = owner
        self._world = owner.world
        self._sent = 0
        self._last_arrival = 0.0
        self._answers: dict[int, tuple[int, int]] = {}
        self._next_answer = 0
        self._last_answer_at = 0.0

    def send(self, payload: bytes, *, transactional: bool) -> None:
        events = self._world.events
        number = self._sent
        self._sent += 1
        self.sent_at.append(events.now_s)
        if self._world.network.loses():
            self.arrives_until = min(self.arrives_until, events.now_s)
        arrival = max(self._last_arrival, events.now_s + self._world.network.delay_s())
        self._last_arrival = arrival

        def arrive() -> None:
            if events.now_s <= self.arrives_until:
                self._arrive(number, payload, transactional)

        events.after(arrival - events.now_s, arrive)

    def _arrive(self, number: int, payload: bytes, transactional: bool) -> None:
        world = self._world

        def reply(code: int, base: int) -> None:
            self._answers[number] = (code, base)
            self._flush()

        target = world.target
        if target.leader != self.leader:
            reply(target_log.NOT_LEADER, -1)
            return
        code = world.refusal()
        if code and code not in (target_log.TIMED_OUT, 20):
            reply(code, -1)
            return

        def stored(answer: int, base: int) -> None:
            reply(answer or code, base)

        target.produce(payload, transactional_id=transactional, reply=stored)

    def _flush(self) -> None:
        """Hand over the answers that are next in order."""
        events = self._world.events
        while self._next_answer in self._answers:
            code, base = self._answers.pop(self._next_answer)
            self._next_answer += 1
            if self._world.network.loses():
                self._next_answer = -1  # the connection broke: no answer comes any more
                return
            self._last_answer_at = max(
                # A little later, or rounding could have the next answer overtake this one.
                self._last_answer_at + 1e-6,
                events.now_s + self._world.network.delay_s(),
            )
            self._deliver(self._last_answer_at - events.now_s, code, base)

    def _deliver(self, delay_s: float, code: int, base: int) -> None:
        owner = self._owner
        owner.deliver_after(delay_s, lambda: owner.produce_answered(self, code, base))


class Owner:
    """`worker` names the process that vouches for it; only its newest copy may take."""

    def __init__(self, around: World, *, name: str, worker: bytes, make: MakeCopy) -> None:
        self.world = around
        self.name = name
        self.worker = worker
        self.alive = True
        self.frozen = False
        self.given_ids: list[ProducerIdentity] = []
        self.justly_fenced: bool | None = None
        self.thawed_s = -1.0
        self._last_stop: PartitionHalt | None = None
        self.held = MemoryBudget(limit_bytes=1 << 30)
        self._others_hold = 0
        self.machine = make(
            around.setup,
            owner=worker,
            memory_budget=self.held,
            merge_limits=BatchMergeLimits()
            if around.weather.joins
            else BatchMergeLimits(records=0),
            random=Random(around.events.random.random()),
            wall_ms=around.events.wall_ms,
            transform=around.transform,
        )
        self._told = Told(around.java, around.events)
        self._events = around.events
        self._network = around.network
        self._channel = Channel(self, 0)
        self._mailbox: list[Callable[[], None]] = []
        self._question = 0
        self._fetch_number = 0
        self._fetching = False
        self._fetched_from = -1
        self._stream_at = 0.0
        self._view = (around.target.leader, around.target.leader_epoch)
        self._ticks_at = float("inf")
        self._tick_number = 0
        self._answers: dict[type, Callable[[Any], InstructionAnswer]] = {
            RequestAcquisition: self._may_take,
            FindTargetEnd: self._note_end,
            InitProducer: self._init_producer,
            InitIdempotentProducer: lambda _: ProducerIdentity(
                id=around.coordinator.another_id(), epoch=0
            ),
            AddToTransaction: self._add_partition,
            CommitTransaction: self._commit,
            ReadTarget: self._read_target,
            ReadSource: self._read_source,
            ReadRecoveredState: lambda each: around.log.facts(each.target_offset),
            FindReverseFlowProducers: lambda each: ReverseFlowProducers(
                producers=around.opposite.whose(each.producers)
            ),
            FindEpochEnd: self._epoch_end,
            FindOpenTransactions: self._open_transactions,
            FindSourceOffset: lambda each: SourceLogOffset(
                offset=around.source.offset_of(each.position)
            ),
        }

    # Life and death

    def begin(self) -> None:
        self._tick()

    def crash(self) -> None:
        self.alive = False
        random = self._events.random
        cut = random.choice((0.0, 0.0, 0.005, 30.0, float("inf")))
        self._channel.arrives_until = min(self._channel.arrives_until, self._events.now_s + cut)
        self._note("crashed")

    def freeze(self) -> None:
        self.frozen = True
        self._note("frozen")

    def thaw(self) -> None:
        if not self.frozen:
            return
        self.frozen = False
        self.thawed_s = self._events.now_s
        self._note("thaws")
        waiting, self._mailbox = self._mailbox, []
        if self._events.random.random() < 0.5:
            waiting.insert(0, self._tick)
        for each in waiting:
            self._run(each)

    @property
    def is_amid_parts(self) -> bool:
        """Was some of a batch read, and is nothing of it ready to be sent?"""
        outbox = self.machine.send_queue
        return outbox._decoder is not None and not outbox._staged

    @property
    def is_before_its_place(self) -> bool:
        """Is all that was read of a batch copied already?"""
        outbox = self.machine.send_queue
        opened = outbox._decoder if self.is_amid_parts else None
        return opened is not None and opened.next_source <= outbox._queue[0].first

    @property
    def has_sent_parts(self) -> bool:
        """Is some of a batch acknowledged, and more to come?"""
        outbox, written = self.machine.send_queue, self.machine.map
        opened = outbox._decoder is not None and written is not None
        return opened and written.through > outbox._queue[0].header.base_offset

    def pause(self, *, on: bool) -> None:
        """Heard of at once, or when it thaws."""

        def pause() -> None:
            self._note("paused" if on else "goes on")
            self.machine.paused = on
            self._handle(self.machine.tick(self._events.now_s))

        self.deliver_after(0.0, pause)

    def lose_room(self, length_s: float) -> None:
        """For so long other partitions hold all of the budget as opened batches."""
        size = self.held.limit_bytes
        self._others_hold += size
        self.held.reserve(size, decoded=True)

        def give_back() -> None:
            self._others_hold -= size
            self.held.release(size, decoded=True)

        self._events.after(length_s, give_back)

    def close(self) -> None:
        self._note("closing")
        self._handle(self.machine.close(self._events.now_s))

    @property
    def done(self) -> bool:
        """Will this copy never move again by itself?"""
        phase = self.machine.state.phase
        if phase is PartitionPhase.HALTED:
            assert self.machine.state.halt is not None
            return self.machine.state.halt.retry_after_s is None or self._given_up
        return phase in (PartitionPhase.FENCED, PartitionPhase.CLOSED)

    @property
    def _given_up(self) -> bool:
        """It would be tried again for ever, and nothing will change."""
        stop = self.machine.state.halt
        if stop is None or not self._network.calm or self.world.weather.java == "turns":
            return False
        return stop.cause in HOPELESS

    @property
    def caught_up(self) -> bool:
        machine = self.machine
        return (
            machine.state.phase is PartitionPhase.COPYING
            and machine.source.position >= self.world.source.stable_end
            and not machine.send_queue.queued_batches
            and not machine.in_flight.batch_count
            and machine.is_all_progress_recorded
        )

    def _note(self, what: object) -> None:
        self._events.note(self.name, what)

    # Deliveries

    def deliver_after(self, delay_s: float, action: Callable[[], None]) -> None:
        self._events.after(delay_s, lambda: self._run(action))

    def _run(self, action: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.frozen:
            self._mailbox.append(action)
            return
        action()

    def _handle(self, given: list[Instruction]) -> None:
        """Execute what the machine says, feed it, and see that it is called again."""
        self._execute(given)
        self._pump()
        self.machine.check_invariants()
        self._check_budget()
        if self._events.tracing:
            self._trace_phase()
        if self.machine.state.phase is PartitionPhase.FENCED and self.justly_fenced is None:
            self.justly_fenced = self._somebody_took_over()
        stop = self.machine.state.halt
        if stop is not None and stop is not self._last_stop:
            self.world.person.hears(self, stop)
        self._last_stop = stop
        if self.machine.state.phase is PartitionPhase.COPYING:
            self._told.copied_to(partition_lag.compute_replicated_end_offset(self.machine))
        self._plan_tick()

    def _check_budget(self) -> None:
        """What is under way is held of it, and nothing else."""
        machine = self.machine
        if type(machine) is not PartitionReplicator:
            return  # it would tell of a planted fault, but the judge shall
        if not (
            machine.script_runner.is_running
            or machine.in_flight.batch_count
            or machine.send_queue.queued_batches
        ):
            assert self.held.decoded_bytes == self._others_hold, self.held
            assert self.held.held_bytes == self._others_hold, self.held

    def _somebody_took_over(self) -> bool:
        """Has another worker recorded an anchor under a newer identity than we ever had?"""
        held = self.world.log.partition
        mine = max(
            (
                (held.producers[each.id].ordinal, each.epoch)
                for each in self.given_ids
                if each.id in held.producers
            ),
            default=(0, 0),
        )
        return any(
            segment.owner != self.worker and (key.ordinal, key.epoch) > mine
            for key, segment in held.segments.items()
        )

    def _trace_phase(self) -> None:
        said = f"{self.machine.state.phase.value}: {self.machine.state.reason}"
        if said != getattr(self, "_said", ""):
            self._said = said
            self._note(said)

    def _execute(self, given: list[Instruction]) -> None:
        for each in given:
            if isinstance(each, RefreshTargetMetadata):
                self._refresh()
            elif isinstance(
                each, AppendToFlowState
            ) and not self.machine.script_runner.is_instruction_outstanding(each):
                self._background_record(each)
            else:
                self._ask(each)

    def _pump(self) -> None:
        machine = self.machine
        now_s = self._events.now_s
        while machine.prepare_next_batch(now_s):
            if self._channel.leader != self._view[0] and not machine.in_flight.batch_count:
                self._channel = Channel(self, self._view[0])
            transactional = machine.transaction_mode.is_active
            self._channel.send(bytes(machine.pop_next_batch(now_s)), transactional=transactional)
        waiting = self._fetching and self._fetched_from == machine.source.position
        if (
            machine.accepts_fetched_records
            and not waiting
            and machine.send_queue.queued_batches < QUEUE_MAX
        ):
            self._fetch()

    # Ticks

    def _tick_in_s(self) -> float | None:
        """How long until this copy's process looks at it again; None: an answer comes first."""
        machine, random = self.machine, self._events.random
        match machine.state.phase:
            case PartitionPhase.HALTED | PartitionPhase.WAITING if machine.state.closing:
                return 0.01
            case PartitionPhase.HALTED if self._given_up:
                return None
            case PartitionPhase.HALTED if not self._network.calm:
                return self._until_awake_s() + random.uniform(0.0, self.world.idle_tick_s)
            case PartitionPhase.HALTED | PartitionPhase.WAITING:
                return self._until_awake_s()
            case PartitionPhase.COPYING if machine.needs_tick_soon:
                return random.uniform(0.02, 0.3)
            case PartitionPhase.COPYING:
                return random.uniform(1.0, self.world.idle_tick_s)
            case _:
                return None

    def _until_awake_s(self) -> float:
        return max(self.machine.state.wake_at_s - self._events.now_s, 0.0) + 0.01

    def _plan_tick(self) -> None:
        wait_s = self._tick_in_s()
        if wait_s is None:
            return
        if self._channel.sent_at:
            wait_s = min(wait_s, self._channel.sent_at[0] + TIMEOUT_S - self._events.now_s + 0.01)
        due = self._events.now_s + wait_s
        if wait_s == float("inf") or self._events.now_s < self._ticks_at <= due:
            return
        self._ticks_at = due
        self._tick_number += 1
        number = self._tick_number

        def tick() -> None:
            if number == self._tick_number:
                self._run(self._tick)

        self._events.after(max(wait_s, 0.0), tick)

    def _tick(self) -> None:
        now_s = self._events.now_s
        machine = self.machine
        waiting = self._channel.sent_at
        if waiting and now_s >= waiting[0] + TIMEOUT_S:
            self._break_channel()
        self._ticks_at = float("inf")
        self._handle(machine.tick(now_s))

    def _refresh(self) -> None:
        """Read the metadata again; it may be stale once more when it arrives."""

        seen = (self.world.target.leader, self.world.target.leader_epoch)

        def known() -> None:
            if seen[1] > self._view[1]:
                self._view = seen
                self._handle(self.machine.on_leader_epoch_received(seen[1], self._events.now_s))

        self.deliver_after(self._network.delay_s(), known)

    def hear_of_leader(self) -> None:
        self._refresh()

    # Produce

    def produce_answered(self, channel: Channel, code: int, base: int) -> None:
        if channel is not self._channel or not channel.sent_at:
            return
        channel.sent_at.popleft()
        now_s = self._events.now_s
        if code == 0:
            source = self.machine.in_flight.oldest_source_offset
            if source is not None:
                self._told.acknowledged(source, base)
            self._handle(self.machine.on_produce_acknowledged(base, -1, now_s))
            return
        self._note(f"produce refused with {code}")
        if code == target_log.NOT_LEADER:
            self._refresh()
        self._handle(self.machine.on_produce_error(code, "", now_s))

    def _break_channel(self) -> None:
        waiting = len(self._channel.sent_at)
        self._note(f"connection broken, {waiting} in flight")
        self._channel = Channel(self, self._view[0])
        for _ in range(waiting):
            self._handle(self.machine.on_produce_response_lost("disconnected", self._events.now_s))

    # Fetch

    def _fetch(self) -> None:
        position, epoch = self.machine.source.position, self.machine.source.epoch
        self._fetching = True
        self._fetched_from = position
        self._fetch_number += 1
        number = self._fetch_number
        source = self.world.source

        def answer() -> None:
            if not self.alive:
                return
            found = source.fetch(position, last_epoch=epoch)
            delay_s = min(self._network.delay_s(), TIMEOUT_S)
            self.deliver_after(delay_s, lambda: self._fetched(number, position, found))

        if self._network.loses():
            self.deliver_after(TIMEOUT_S, lambda: self._fetch_lost(number))
            return
        delay_s = min(self._network.delay_s(), TIMEOUT_S)
        self._events.after(delay_s, lambda: source.when_changed(position, answer))

    def _fetch_lost(self, number: int) -> None:
        if number == self._fetch_number:
            self._fetching = False
            self._handle([])

    def _fetched(
        self,
        number: int,
        position: int,
        found: Fetched | Refusal | Diverged,
    ) -> None:
        if number != self._fetch_number:
            return
        self._fetching = False
        machine, now_s = self.machine, self._events.now_s
        given: list[Instruction] = []
        if position == machine.source.position:
            match found:
                case Fetched():
                    given = machine.on_records_fetched(_records(found), now_s)
                case Refusal():
                    given = machine.on_fetch_error(found.code, now_s)
                case Diverged():
                    given = machine.on_source_diverged(found.end, now_s)
        self._handle(given)

    # Records for the map and incident topics

    def _background_record(self, record: AppendToFlowState) -> None:
        def stored() -> None:
            self.machine.on_segment_stored(record.token)
            self._handle([])

        self._stream(record, stored)

    def _stream(self, record: AppendToFlowState, stored: Callable[[], None]) -> None:
        """Ordered and, while the process lives, reliable; a crash may cut it anywhere."""
        events = self._events
        sent_s = min(self._network.delay_s(), STREAM_DELAY_MAX_S)
        self._stream_at = max(self._stream_at, events.now_s + sent_s)

        def arrive() -> None:
            if self.alive or events.random.random() < 0.5:
                stored_items = len(record.items)
                if not self.alive:
                    stored_items = events.random.randint(1, stored_items)
                for item in record.items[:stored_items]:
                    self.world.log.append(item)
                delay_s = min(self._network.delay_s(), STREAM_DELAY_MAX_S)
                self.deliver_after(delay_s, stored)

        events.after(self._stream_at - events.now_s, arrive)

    # The one question that the machine's script has outstanding

    def _ask(self, question: Instruction) -> None:
        self._question += 1
        number = self._question

        def answer(given: InstructionAnswer) -> None:
            if number == self._question and self.machine.script_runner.is_running:
                self._answered(question, given)

        if isinstance(question, Delay):
            self.deliver_after(question.delay_s, lambda: answer(InstructionDone()))
        elif isinstance(question, AppendToFlowState):
            self._stream(question, lambda: answer(InstructionDone()))
            if self._network.loses():
                lost = NoResponse(reason="no word from the worker")
                self.deliver_after(TIMEOUT_S, lambda: answer(lost))
        else:
            self._request(lambda: self._answers[type(question)](question), answer)

    def _answered(self, question: Instruction, given: InstructionAnswer) -> None:
        if isinstance(given, ProducerIdentity):
            self.given_ids.append(given)
        if self._events.tracing:
            self._note(f"{type(question).__name__} -> {given}"[:150])
        self._handle(self.machine.script_runner.on_response(given, self._events.now_s))

    def _request(
        self,
        arrive: Callable[[], InstructionAnswer],
        answer: Callable[[InstructionAnswer], None],
    ) -> None:
        """Ask over the network: the question, the answer or both may be late or get lost."""
        events, network = self._events, self._network
        there_s = network.delay_s()
        lost = network.loses()
        unanswered = NoResponse(reason="timed out")

        def arrived() -> None:
            given = arrive()
            back_s = network.delay_s()
            if isinstance(given, FetchedRecords) and not given.records:
                back_s += LONG_POLL_S
            if lost or network.loses() or there_s + back_s > TIMEOUT_S:
                if there_s < TIMEOUT_S:
                    self.deliver_after(TIMEOUT_S - there_s, lambda: answer(unanswered))
                return
            self.deliver_after(back_s, lambda: answer(given))

        if there_s >= TIMEOUT_S:
            self.deliver_after(TIMEOUT_S, lambda: answer(unanswered))
        if lost and events.random.random() < 0.5:
            if there_s < TIMEOUT_S:
                self.deliver_after(TIMEOUT_S, lambda: answer(unanswered))
            return
        events.after(there_s, arrived)

    def _may_take(self, _: RequestAcquisition) -> InstructionAnswer:
        """A worker says yes to its newest copy; an older one it tells to end."""
        if self.world.newest[self.worker] is self:
            return InstructionDone()
        self.deliver_after(self._network.delay_s(), self.crash)
        return NOT_MINE

    def _wrong_leader(self) -> InstructionRefused | None:
        if self._view[0] == self.world.target.leader:
            return None
        self._refresh()
        return InstructionRefused(code=target_log.NOT_LEADER)

    def _note_end(self, _: FindTargetEnd) -> InstructionAnswer:
        target = self.world.target
        return self._wrong_leader() or TargetEnd(
            offset=target.told_end, leader_epoch=target.leader_epoch
        )

    def _init_producer(self, _: InitProducer) -> InstructionAnswer:
        code, producer, epoch = self.world.coordinator.init_producer()
        if code:
            return InstructionRefused(code=code)
        self.world.target.granted[producer, epoch] = self.world.target.java_turn
        return ProducerIdentity(id=producer, epoch=epoch)

    def _add_partition(self, asked: AddToTransaction) -> InstructionAnswer:
        who = asked.producer
        return _done(self.world.coordinator.add_partition(who.id, who.epoch))

    def _commit(self, asked: CommitTransaction) -> InstructionAnswer:
        who = asked.producer
        return _done(self.world.coordinator.end(who.id, who.epoch, commit=True))

    def _read_target(self, asked: ReadTarget) -> InstructionAnswer:
        refused = self._wrong_leader()
        if refused is not None:
            return refused
        found = self.world.target.fetch(asked.offset)
        if isinstance(found, Refusal):
            return InstructionRefused(code=found.code, log_start=found.log_start)
        records, log_start, end = found
        return FetchedRecords(
            records=memoryview(self._as_read(records, damaged_from=record_batch.HEADER_BYTES)),
            log_start=log_start,
            end=end,
            last_stable_offset=self.world.target.told_stable,
        )

    def _open_transactions(self, _: FindOpenTransactions) -> InstructionAnswer:
        found = self.world.target.open_transactions
        if not self.world.described:
            return DENIED
        return self._wrong_leader() or OpenTransactions(
            transactions=tuple(
                OpenTransaction(producer_id=producer, start=start)
                for producer, start in found.items()
            )
        )

    def _read_source(self, asked: ReadSource) -> InstructionAnswer:
        found = self.world.source.fetch(asked.offset)
        if isinstance(found, Refusal):
            return InstructionRefused(code=found.code, log_start=found.log_start)
        assert isinstance(found, Fetched)
        read = self._as_read(bytes(found.records), damaged_from=record_batch.CRC_START)
        return dataclasses.replace(_records(found), records=memoryview(read))

    def _as_read(self, records: bytes, *, damaged_from: int) -> bytearray:
        """What a script gets of it; of its first batch, bits from `damaged_from` on may differ."""
        weather, random = self.world.weather, self._events.random
        read = bytearray(records)
        if weather.crowded and random.random() < weather.crowded:
            return bytearray()
        hit = weather.damaged and not self._network.calm and random.random() < weather.damaged
        size = int.from_bytes(read[8:12], "big") + record_batch.LENGTH_END if read else 0
        if hit and damaged_from < size <= len(read):
            read[random.randrange(damaged_from, size)] ^= 1 << random.randrange(8)
        return read

    def _epoch_end(self, asked: FindEpochEnd) -> InstructionAnswer:
        refused = self._wrong_leader()
        if refused is not None:
            return refused
        code, end = self.world.target.epoch_end(asked.leader_epoch, asked.current_leader_epoch)
        return InstructionRefused(code=code) if code else EpochEnd(offset=end)


def _records(found: Fetched) -> FetchedRecords:
    return FetchedRecords(
        records=memoryview(found.records),
        log_start=found.log_start,
        end=found.stable_end,
        aborted=found.aborted,
    )


def _done(code: int) -> InstructionAnswer:
    return InstructionRefused(code=code) if code else InstructionDone()
