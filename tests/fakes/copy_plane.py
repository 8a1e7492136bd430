"""A data plane whose copies are the test: what they are told is kept, what they say is put in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mm2.config.copy_engine_config import EngineSettings
from mm2.copier import control_channel_messages, progress_reports
from mm2.copier.control_channel_messages import CopyConfiguration
from mm2.copier.control_channel_server import ChannelInbox
from mm2.copier.copy_engine import CopyJob, CopyState, SlotUsage
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.replication.replication_latency import LatencySnapshot


class FakeChannel:
    """The worker's end of a copy's connection, as far as a task uses it."""

    token = b"token"

    def __init__(self, inbox: ChannelInbox) -> None:
        self.name, self.inbox = "", inbox
        self.sent: list[dict[str, Any]] = []
        self.is_connected = True
        self.closed = ""
        self.closed_reason: str | None = None

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def close(self, reason: str) -> None:
        self.closed = self.closed or reason

    def record_message_consumed(self, message_bytes: int) -> None:
        pass

    def reassign_to_inbox(self, name: str, inbox: ChannelInbox) -> None:
        self.name, self.inbox = name, inbox

    def says(self, **message: Any) -> None:
        channel: Any = self
        self.inbox.put_messages(channel, [message])

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.sent if each["type"] == kind]


@dataclass
class FakeHandle:
    """Implements `CopyHandle`."""

    state: CopyState = CopyState.RUNNING
    error: str | None = None
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def wait(self, timeout_s: float) -> bool:
        return self.cancelled


@dataclass
class FakePlane:
    """Engine, server and `shared_copy_engine.DataPlane` in one."""

    failure: str = ""
    released: int = 0
    settings: EngineSettings | None = None
    address: str = "here"
    is_warm: bool = True
    channels: list[FakeChannel] = field(default_factory=list)
    handles: list[FakeHandle] = field(default_factory=list)

    @property
    def engine(self) -> Any:
        return self

    @property
    def server(self) -> Any:
        return self

    @property
    def standby_copies(self) -> Any:
        return self

    def take_standby_process(self, name: str, inbox: ChannelInbox) -> None:
        """Nothing waits."""

    def acquire(self, settings: EngineSettings | None, clock: object) -> Any:
        self.settings = settings
        return self

    def release_reference(self) -> None:
        self.released += 1

    def open_channel(self, name: str, *, inbox: ChannelInbox) -> FakeChannel:
        self.channels.append(FakeChannel(inbox))
        return self.channels[-1]

    def start(self, job: CopyJob) -> FakeHandle:
        self.handles.append(FakeHandle())
        return self.handles[-1]

    def get_slot_usage(self) -> SlotUsage:
        waiting = sum(each.state is CopyState.WAITING_FOR_SLOT for each in self.handles)
        return SlotUsage(total=1, used=1, waiting=waiting)

    @property
    def copy(self) -> FakeChannel:
        """The newest."""
        return self.channels[-1]

    def configured(self) -> CopyConfiguration:
        """What the newest copy was told to do."""
        return control_channel_messages.decode_copy_configuration(self.copy.told("configure")[0])

    def gauges(self, *, phase: str = "copying", reason: str = "", copied_to: int = 5) -> None:
        """The newest copy says how far all its partitions are."""
        found = [
            PartitionProgressReport(
                **{**PLAIN, "index": at, "phase": phase, "reason": reason, "copied_to": copied_to}
            )
            for at in range(len(self.configured().partitions))
        ]
        self.copy.says(
            **progress_reports.encode_progress_reports(
                found, connection_errors={}, latency=LatencySnapshot(), now_s=0.0
            )
        )


PLAIN: dict[str, Any] = {
    "records": 5,
    "bytes": 50,
    "source_end": 5,
    "log_start": 0,
    "age_ms": 1,
    "oldest_uncopied_ms": -1,
    "transactional": False,
    "cause": "",
}
