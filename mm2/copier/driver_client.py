"""The copy process's client for its driver: sends requests, the stream of records to store, and
progress reports."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from mm2.copier import control_channel_messages, progress_reports
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.recovery_instructions import (
    FlowStateRecord,
    InstructionAnswer,
    InstructionDone,
)
from mm2.replication.replication_latency import LatencySnapshot

MAX_UNSTORED_ITEMS = 50_000
"""Maximum number of offset map records and incidents that the driver has not stored yet.
Replication pauses at this number."""

DriverAnswerHandler = Callable[[InstructionAnswer], None]


class MessageChannel(Protocol):
    """Sends messages to the driver; implemented by `ControlClient`."""

    def send(self, message: Mapping[str, object]) -> None: ...


class DriverClient:
    """Sends numbered requests and records to the driver, and dispatches the driver's responses to
    handlers. Invariant: the records to store are numbered without gaps, in the order in which they
    were appended."""

    def __init__(self, channel: MessageChannel) -> None:
        self._channel = channel
        self._state_requests: dict[int, DriverAnswerHandler] = {}
        self._acquisition_requests: dict[int, DriverAnswerHandler] = {}
        self._reverse_producer_requests: dict[int, DriverAnswerHandler] = {}
        self._unstored: deque[tuple[int, DriverAnswerHandler]] = deque()
        self._request_count = 0
        self._streamed_count = 0
        self._stored_count = 0

    @property
    def is_storage_backlog_full(self) -> bool:
        """True if the number of records waiting to be stored by the driver has reached the
        maximum."""
        return self._streamed_count - self._stored_count >= MAX_UNSTORED_ITEMS

    def request_recovered_state(
        self, where: PartitionSetup, target: int | None, *, on_answer: DriverAnswerHandler
    ) -> None:
        """Request the recovered state of a partition from the driver. If `target` is not None, also
        request the source offset that corresponds to this target offset."""
        self._request_count += 1
        self._state_requests[self._request_count] = on_answer
        self._channel.send(
            control_channel_messages.encode_recovered_state_request(
                self._request_count, where, target=target
            )
        )

    def request_acquisition_permission(self, *, on_answer: DriverAnswerHandler) -> None:
        """Ask the driver for permission to acquire partitions. The driver grants permission once
        the Connect group has confirmed that the task is still assigned to this worker. Only a
        confirmation after this request counts."""
        self._request_count += 1
        self._acquisition_requests[self._request_count] = on_answer
        self._channel.send({"type": "acquisition_request", "id": self._request_count})

    def request_reverse_flow_producers(
        self, producers: Sequence[int], *, on_answer: DriverAnswerHandler
    ) -> None:
        """Request which of these source producer ids belong to the reverse flow."""
        self._request_count += 1
        self._reverse_producer_requests[self._request_count] = on_answer
        self._channel.send(
            control_channel_messages.encode_reverse_flow_producers_request(
                self._request_count, producers
            )
        )

    def append_to_flow_state(
        self, items: Sequence[FlowStateRecord], *, on_stored: DriverAnswerHandler
    ) -> None:
        """Send records for the driver to append to the offset map or incident topic. `on_stored` is
        called once all of them are stored."""
        self._channel.send(
            control_channel_messages.encode_flow_state_records(self._streamed_count + 1, items)
        )
        self._streamed_count += len(items)
        self._unstored.append((self._streamed_count, on_stored))

    def send_progress_reports(
        self,
        reports: Sequence[PartitionProgressReport],
        *,
        connection_errors: Mapping[str, str],
        latency: LatencySnapshot,
        now_s: float,
    ) -> None:
        """Send the partitions' changed progress reports. Without changes, the message serves as a
        heartbeat."""
        self._channel.send(
            progress_reports.encode_progress_reports(
                reports, connection_errors=connection_errors, latency=latency, now_s=now_s
            )
        )

    def handle_message(self, message: Mapping[str, Any]) -> bool:
        """Dispatch a response from the driver to its handler. Return False if the message is not a
        response."""
        match message["type"]:
            case "recovered_state":
                answered = self._state_requests.pop(message["id"], None)
                if answered is not None:
                    answered(control_channel_messages.decode_recovered_state(dict(message)))
            case "reverse_producers":
                answered = self._reverse_producer_requests.pop(message["id"], None)
                if answered is not None:
                    answered(control_channel_messages.decode_reverse_flow_producers(dict(message)))
            case "acquisition_granted":
                answered = self._acquisition_requests.pop(message["id"], None)
                if answered is not None:
                    answered(InstructionDone())
            case "recorded":
                self._handle_items_stored(message["through"])
            case _:
                return False
        return True

    def _handle_items_stored(self, through: int) -> None:
        self._stored_count = max(self._stored_count, through)
        while self._unstored and self._unstored[0][0] <= through:
            self._unstored.popleft()[1](InstructionDone())
