"""The copy's client of its driver: recovered state, stream of items to store, gauges, heartbeats."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from mm2.copier import control_messages
from mm2.copier.control_messages import PartitionGauge
from mm2.replication.latency import LatencySnapshot
from mm2.replication.recovery_instructions import FlowLogItem, InstructionAnswer, InstructionDone
from mm2.replication.setup import PartitionSetup

MAX_UNSTORED_ITEMS = 50_000
"""Stream items that may wait to be stored; at more of them nothing more is copied meanwhile."""

DriverAnswerHandler = Callable[[InstructionAnswer], None]


class MessageChannel(Protocol):
    """The sending half of `control_client.ControlClient`."""

    def send(self, message: Mapping[str, object]) -> None: ...


class DriverClient:
    """Numbers questions and stream items, and finds who waits for which answer.

    Invariant: stream items are numbered without a gap, in the order in which they were given.
    """

    def __init__(self, channel: MessageChannel) -> None:
        self._channel = channel
        self._reads: dict[int, DriverAnswerHandler] = {}
        self._may_take: dict[int, DriverAnswerHandler] = {}
        self._opposite: dict[int, DriverAnswerHandler] = {}
        self._unrecorded: deque[tuple[int, DriverAnswerHandler]] = deque()
        self._asked = 0
        self._streamed = 0
        self._recorded = 0

    @property
    def full(self) -> bool:
        """Do as many stream items as allowed wait to be stored?"""
        return self._streamed - self._recorded >= MAX_UNSTORED_ITEMS

    def read_facts(
        self, where: PartitionSetup, target: int | None, *, answered: DriverAnswerHandler
    ) -> None:
        """Ask for a partition's facts; `target` as in `ReadRecoveredState`."""
        self._asked += 1
        self._reads[self._asked] = answered
        self._channel.send(
            control_messages.encode_recovered_state_request(self._asked, where, target=target)
        )

    def ask_may_take(self, *, answered: DriverAnswerHandler) -> None:
        """Answered once the group has confirmed the task later than this."""
        self._asked += 1
        self._may_take[self._asked] = answered
        self._channel.send({"type": "may_take?", "id": self._asked})

    def ask_opposite(self, producers: Sequence[int], *, answered: DriverAnswerHandler) -> None:
        """Which of these producer ids of the source are the opposite flow's?"""
        self._asked += 1
        self._opposite[self._asked] = answered
        self._channel.send(
            control_messages.encode_reverse_producers_request(self._asked, producers)
        )

    def record(self, items: Sequence[FlowLogItem], *, answered: DriverAnswerHandler) -> None:
        """Append these to the map or incident topic; `answered` once all of them are stored."""
        self._channel.send(control_messages.encode_log_items(self._streamed + 1, items))
        self._streamed += len(items)
        self._unrecorded.append((self._streamed, answered))

    def gauges(
        self,
        found: Sequence[PartitionGauge],
        *,
        troubles: Mapping[str, str],
        pulse: LatencySnapshot,
        now_s: float,
    ) -> None:
        """Also a sign of life, when nothing has changed."""
        self._channel.send(
            control_messages.encode_gauges(found, troubles=troubles, pulse=pulse, now_s=now_s)
        )

    def received(self, message: Mapping[str, Any]) -> bool:
        """An answer from the worker; False when it is none of these."""
        match message["type"]:
            case "facts":
                answered = self._reads.pop(message["id"], None)
                if answered is not None:
                    answered(control_messages.decode_recovered_state(dict(message)))
            case "opposite":
                answered = self._opposite.pop(message["id"], None)
                if answered is not None:
                    answered(control_messages.decode_reverse_producers(dict(message)))
            case "may_take":
                answered = self._may_take.pop(message["id"], None)
                if answered is not None:
                    answered(InstructionDone())
            case "recorded":
                self._stored(message["through"])
            case _:
                return False
        return True

    def _stored(self, through: int) -> None:
        self._recorded = max(self._recorded, through)
        while self._unrecorded and self._unrecorded[0][0] <= through:
            self._unrecorded.popleft()[1](InstructionDone())
