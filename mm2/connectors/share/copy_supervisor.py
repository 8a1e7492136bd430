"""Watches the copy of one task's share, which an engine runs in a process of its own.

The copy moves the bytes; this side gives it its settings, answers its questions, stores what it
reports, and starts it again after a backoff when it ends unasked.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from connect_runtime.base import backoff, errors, ids, log_context
from mm2.connectors import flow_status
from mm2.connectors.share import (
    copy_figures,
    copy_start,
    copy_stream,
    flow_ledger,
    holdups,
    opposite_ids,
    receipts,
)
from mm2.core.copy import facts, instructions, messages, setup
from mm2.pipeline import control_channel, engine, started_copy

RESTART_FIRST_S = 0.5
RESTART_MAX_S = 30.0
STARTUP_S = 120.0
"""How long a copy that has a slot may take until its first report."""
STOP_S = 1.6
UNSURE = "nothing was heard of the worker's group for too long"
LAST_WORDS_S = 0.5
"""An engine says why a copy ended a little after its connection broke."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a copy and its supervisor need.

    `whose` answers a copy whose producer ids of the source are. `may_take`: may be taken what a
    copy asked for at that time (monotonic seconds)? Asked again until it may. `may_live`: is it
    certain enough that no other worker has the task? Else the copy ends. `streamed` and `gauged`
    hear what it reports, in order.
    """

    place: copy_start.Place
    ledger: flow_ledger.FlowLedger
    random: Random
    log_broken: Callable[[errors.ConnectError], None]
    whose: opposite_ids.Ask
    may_take: Callable[[float], bool]
    may_live: Callable[[float], bool]
    streamed: Callable[[Sequence[instructions.LogItem]], None]
    gauged: Callable[[setup.PartitionSetup, messages.Gauge], None]


class CopySupervisor:
    """Its task's thread owns it; `cut` alone may be called from others.

    `taken_over` says why a partition is another owner's for good, "" while none is: only without
    a group of workers, which else says whose it is. Invariant: at most one copy is meant to run.
    """

    def __init__(
        self,
        settings: messages.Configure,
        around: Surroundings,
        *,
        before: CopySupervisor | None = None,
        ahead: started_copy.StartedCopy | None = None,
        given_s: float | None = None,
    ) -> None:
        """`before`: the one that this follows; all that it counted is counted on. `ahead` has begun
        already, and waits for these settings. What the group has confirmed later than `given_s`
        answers the copy's first questions, too."""
        self.settings = settings
        self.state = flow_status.TaskState.STARTING
        self.reason = ""
        self.taken_over = ""
        self.receipts: receipts.Receipts = (
            before.receipts if before is not None else receipts.Receipts()
        )
        self.restarts: int = before.restarts if before is not None else 0
        self.figures: copy_figures.CopyFigures = copy_figures.CopyFigures(
            settings.partitions, before=before.figures if before is not None else None
        )
        self._around = around
        self._ahead = ahead
        self._given_s = given_s
        self._backoff = backoff.Backoff(initial_s=RESTART_FIRST_S, max_s=RESTART_MAX_S)
        self._channel: control_channel.TaskChannel | None = None
        self._shift = messages.ClockShift()
        self._handle: engine.CopyHandle | None = None
        self._start_at_s = 0.0
        self._reported_at_s = 0.0
        self._beat_at_s = 0.0
        self._stream = copy_stream.CopyStream(
            around.ledger, log_broken=around.log_broken, on_receipt=self._note_receipt
        )
        self._fatal = ""
        self._gone: tuple[str, float] | None = None
        self._paused = False
        self._questions: deque[tuple[int, float]] = deque()
        self._names = [each.name for each in settings.partitions]
        self._holdups = holdups.Holdups()

    @property
    def name(self) -> str:
        return f"{self.settings.flow} task {self.settings.task}"

    @property
    def channel(self) -> control_channel.TaskChannel | None:
        return self._channel

    @property
    def ended(self) -> bool:
        return self.state is flow_status.TaskState.STOPPED

    @property
    def busy(self) -> bool:
        """Is something about to happen, so that its owner looks again soon?"""
        return (
            self.state is not flow_status.TaskState.RUNNING
            or bool(self._questions)
            or self._stream.waits
        )

    # Time

    def tick(self, now_s: float) -> None:
        """Start the copy when that is due, end it when it is silent, answer what it asked."""
        if self.ended:
            return
        around = self._around
        if self.state is not flow_status.TaskState.STOPPING and not around.may_live(now_s):
            self.restart(UNSURE, now_s)
            return
        if self._channel is None:
            if self.state is flow_status.TaskState.STOPPING:
                self.state = flow_status.TaskState.STOPPED
            elif now_s >= self._start_at_s:
                self._start(now_s)
            return
        self._watch(now_s)
        self._stream.append()
        for line in self._holdups.news(self._names, now_s):
            self._tell(logging.WARNING, "%s", line)
        while self._questions and around.may_take(self._questions[0][1]):
            self._send({"type": "may_take", "id": self._questions.popleft()[0]})
        if now_s >= self._beat_at_s and self._gone is None:
            self._beat_at_s = now_s + messages.BEAT_EVERY_S
            self._send({"type": "beat"})

    def _start(self, now_s: float) -> None:
        if self._ahead is not None and not self._ahead.usable:
            self._end_ahead()
        ahead, self._ahead = self._ahead, None
        started = ahead or self._around.place.start()
        self._channel, self._handle = started.channel, started.handle
        self._shift = messages.ClockShift()
        self._fatal = ""
        self._gone = None
        self._stream.begin()
        self._questions.clear()
        self._reported_at_s = now_s
        self.state = flow_status.TaskState.STARTING
        since_s, self._given_s = self._given_s, None
        granted = since_s is not None and self._around.may_take(since_s)
        self._send(messages.configure(dataclasses.replace(self.settings, granted=granted)))
        if self._paused:
            self._send({"type": "pause"})

    def _watch(self, now_s: float) -> None:
        """Has the copy a slot, is it alive, has it ended?"""
        assert self._handle is not None
        if self._gone is not None:
            self._await_last_words(*self._gone, now_s)
            return
        if self._handle.state is engine.CopyState.ENDED:
            self._copy_ended(self._handle.error or self._fatal or "the copy ended", now_s)
            return
        if self.state in (flow_status.TaskState.STARTING, flow_status.TaskState.WAITING_FOR_SLOT):
            waits = self._handle.state is engine.CopyState.WAITING_FOR_SLOT
            self.state = (
                flow_status.TaskState.WAITING_FOR_SLOT if waits else flow_status.TaskState.STARTING
            )
            if waits:
                self._reported_at_s = now_s
        starts = self.state is flow_status.TaskState.STARTING
        limit_s = STARTUP_S if starts else messages.SILENCE_LIMIT_S
        if (
            now_s - self._reported_at_s > limit_s
            and self.state is not flow_status.TaskState.WAITING_FOR_SLOT
        ):
            self._handle.cancel()
            self._copy_ended(f"nothing was heard from the copy for {limit_s:.0f} s", now_s)

    def _copy_ended(self, why: str, now_s: float) -> None:
        if self._channel is not None:
            self._channel.close(why)
        self._channel = self._handle = None
        self._stream.drop()
        self.figures.copy_ended(why)
        self._holdups = holdups.Holdups()
        if self.state is flow_status.TaskState.STOPPING:
            self.state = flow_status.TaskState.STOPPED
        if self.ended:
            return
        self.restarts += 1
        self.state = flow_status.TaskState.RESTARTING
        self.reason = why
        delay_s = self._backoff.next_delay_s(self._around.random)
        self._start_at_s = now_s + delay_s
        self._tell(logging.WARNING, "%s; it is started again in %.1f s", why, delay_s)

    # The copy's words

    def received(self, message: dict[str, Any], now_s: float) -> None:
        """One message of its copy (`mm2.core.copy.messages`), or that its connection is closed."""
        self._reported_at_s = now_s
        match message["type"]:
            case "gauges":
                self._take_gauges(message, now_s)
            case "record":
                self._around.streamed(self._stream.receive(message))
            case "read":
                self._read(message)
            case "opposite?" if self._channel is not None:
                tell = opposite_ids.sender(self._channel, message["id"])
                self._around.whose(message["producers"], tell)
            case "may_take?":
                self._questions.append((message["id"], now_s))
            case "ended":
                self._fatal = message["fatal"] or message["reason"]
            case control_channel.CLOSED:
                self._closed(message["reason"], now_s)

    def _closed(self, reason: str, now_s: float) -> None:
        """Its engine may say why; many copies may have ended at once, so that nothing waits."""
        if self._handle is None:
            return
        self._gone = (reason, now_s + LAST_WORDS_S)
        self._await_last_words(*self._gone, now_s)

    def _await_last_words(self, reason: str, until_s: float, now_s: float) -> None:
        assert self._handle is not None
        if self._handle.state is not engine.CopyState.ENDED and now_s < until_s:
            return
        error = self._handle.error
        self._handle.cancel()
        self._copy_ended(self._fatal or error or f"the copy is gone ({reason})", now_s)

    def _take_gauges(self, message: dict[str, Any], now_s: float) -> None:
        if self.state in (flow_status.TaskState.STARTING, flow_status.TaskState.WAITING_FOR_SLOT):
            self.state = flow_status.TaskState.RUNNING
            self.reason = ""
            self._tell(logging.INFO, "running")
        self._holdups.note_troubles(message["troubles"], now_s)
        shift_s = self._shift.note(message, now_s)
        self.figures.note_pulse(messages.read_pulse(message, shift_s), now_s)
        for gauge in messages.read_gauges(message, shift_s):
            self._holdups.note(gauge, now_s)
            changed = self.figures.note(gauge)
            self._around.gauged(self.settings.partitions[gauge.index], gauge)
            if changed:
                self._note_change(gauge)
            if gauge.records:
                self._backoff.reset()

    def _note_change(self, gauge: messages.Gauge) -> None:
        where = self.settings.partitions[gauge.index]
        if gauge.phase == "stopped":
            self._tell(logging.ERROR, "%s is halted: %s", where.name, gauge.reason)
        elif gauge.phase == "fenced":
            self.taken_over = gauge.reason
            self._tell(logging.ERROR, "%s", gauge.reason)

    def _note_receipt(self, key: bytes, value: bytes) -> None:
        line = self.receipts.stored(key, value)
        if line is not None:
            self._tell(logging.WARNING, "%s", line)

    def tell_stored(self) -> None:
        """Tell the copy how far its stream is stored, if that is news."""
        through = self._stream.news()
        if through is not None:
            self._send({"type": "recorded", "through": through})

    def _read(self, message: dict[str, Any]) -> None:
        channel, number = self._channel, message["id"]

        def answer(found: facts.Facts | None, failure: str) -> None:
            if channel is self._channel:
                self._send(messages.facts_answer(number, found, failure=failure))

        partition = ids.TopicPartition(message["topic"], message["partition"])
        wanted = flow_ledger.FactsWanted(
            partition=partition, target=message["target"], answer=answer
        )
        self._around.ledger.want(wanted)

    def _send(self, message: dict[str, Any]) -> None:
        if self._channel is None:
            return
        try:
            self._channel.send(message)
        except errors.ConnectError as error:
            self._channel.close(str(error))

    def _tell(self, level: int, message: str, *values: object) -> None:
        with log_context.within(task=self.settings.task):
            _log.log(level, message, *values)

    # The operator's hand

    def pause(self, *, paused: bool) -> None:
        self._paused = paused
        self._send({"type": "pause" if paused else "resume"})

    def pause_topics(self, topics: frozenset[str]) -> None:
        """Of this copy and of those that follow it: these are paused, and no others."""
        if topics != self.settings.paused_topics:
            self.settings = dataclasses.replace(self.settings, paused_topics=topics)
            self._send({"type": "pause_topics", "topics": sorted(topics)})

    def throttle(self, bytes_per_s: int, topics: Mapping[str, int]) -> None:
        """Of this copy and of those that follow it, as in `messages.Configure`."""
        self.settings = dataclasses.replace(
            self.settings, throttle_bytes_s=bytes_per_s, topic_throttles=topics
        )
        self._send({"type": "throttle", "bytes_per_s": bytes_per_s, "topics": dict(topics)})

    def stop(self, deadline_s: float = STOP_S) -> None:
        """Ask the copy to settle what is in flight and to leave."""
        if self.ended:
            return
        self.state = flow_status.TaskState.STOPPING
        if self._channel is None:
            self._end_ahead()
            self.state = flow_status.TaskState.STOPPED
        elif not self._channel.connected:
            self.abandon()
        else:
            self._send({"type": "stop", "deadline_s": deadline_s})

    def restart(self, why: str, now_s: float) -> None:
        """End the copy without a word: what it reports can no longer be stored."""
        self._end_ahead()
        if self._channel is not None and self._handle is not None:
            self._handle.cancel()
            self._copy_ended(why, now_s)

    def _end_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.end("it is not needed")

    def cut(self) -> None:
        """From any thread: end the copy at once; nothing more is known of it here."""
        self._end_ahead()
        handle, channel = self._handle, self._channel
        if handle is not None:
            handle.cancel()
        if channel is not None:
            channel.close("abandoned")

    def abandon(self) -> None:
        """It did not stop in time."""
        self._end_ahead()
        if self._handle is not None:
            self._handle.cancel()
        if self._channel is not None:
            self._channel.close("abandoned")
        self._channel = self._handle = None
        self._stream.drop()
        if self.state is flow_status.TaskState.STOPPING:
            self.state = flow_status.TaskState.STOPPED
