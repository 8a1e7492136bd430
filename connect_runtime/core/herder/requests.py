"""What can be asked of the herder, what it answers, and the queue in which askers wait.

Kept out of here, because any worker answers at once without the herder: listing, statuses, topics;
pausing and resuming, which only write a target state; logger levels.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.base import ids
from connect_runtime.core.herder import restart_plan
from connect_runtime.core.state import cluster_config, config_records

# What can be asked


@dataclass(frozen=True, slots=True)
class CheckHealth:
    """Does the herder come round?"""


@dataclass(frozen=True, slots=True)
class Describe:
    """A connector's configuration and tasks. Answer: `Description`."""

    connector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConnector:
    """Create a connector, or with `replace` configure it anew. Answer: `Put`.

    It was validated where it was received: `invalid` has the message of what was found.
    """

    connector: str
    config: cluster_config.RawConfig = field(repr=False)
    target_state: cluster_config.TargetState | None = None
    replace: bool = True
    invalid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchConnector:
    """Merge into the configuration; None removes a property. Answer: `Put`, after validation."""

    connector: str
    patch: cluster_config.RawConfig = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Answer: `Accepted`."""

    connector: str


@dataclass(frozen=True, slots=True)
class StopConnector:
    """Give up its tasks and set STOPPED. Answer: `Accepted`."""

    connector: str


@dataclass(frozen=True, slots=True)
class RestartConnector:
    """The connector alone, by the worker that runs it. Answer: `Accepted`, once it is started."""

    connector: str


@dataclass(frozen=True, slots=True)
class RestartTask:
    """By the worker that runs it. Answer: `Accepted`, once it is started."""

    task: ids.ConnectorTaskId


@dataclass(frozen=True, slots=True)
class RestartAll:
    """A connector with its tasks, or what of it failed, wherever it runs. Answer: `Restarting`."""

    request: config_records.RestartRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTaskConfigs:
    """From the worker that runs the connector, signed as it should be. Answer: `Accepted`."""

    connector: str
    configs: Sequence[cluster_config.RawConfig] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceTasks:
    """Fence producers of earlier tasks; from a worker that starts one. Answer: `Accepted`."""

    connector: str
    is_source: bool


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """Answered by the worker, from the offsets themselves."""

    connector: str


NewOffsets: TypeAlias = Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
"""Partitions with their offsets as REST received them; None as an offset deletes it."""


@dataclass(frozen=True, slots=True)
class ModifyOffsets:
    """Alter offsets, or with None reset them all; answered by the worker."""

    connector: str
    offsets: NewOffsets | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigure:
    """Ask the connector for its task configs; of the herder's own making.

    `failed`: tries before this one, `asked_s` when the first was due. `waiting` are answered after
    this try, however it ends.
    """

    connector: str
    asked_s: float
    failed: int = 0
    waiting: tuple[int, ...] = ()


Request: TypeAlias = (
    CheckHealth
    | Describe
    | PutConnector
    | PatchConnector
    | DeleteConnector
    | StopConnector
    | RestartConnector
    | RestartTask
    | RestartAll
    | PutTaskConfigs
    | FenceTasks
    | ReadOffsets
    | ModifyOffsets
    | Reconfigure
)

# What is answered


@dataclass(frozen=True, slots=True)
class Accepted:
    """It is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A connector as configured; `task_configs` by number, None for one that is not known."""

    connector: str
    config: cluster_config.RawConfig = field(repr=False)
    task_configs: tuple[cluster_config.RawConfig | None, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """As written; `tasks` are those before, for new ones come later."""

    connector: str
    config: cluster_config.RawConfig = field(repr=False)
    tasks: tuple[ids.ConnectorTaskId, ...]
    created: bool


@dataclass(frozen=True, slots=True)
class Forward:
    """Another worker must be asked; `url` is None while nobody knows which. `why` is for people."""

    url: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """With this HTTP status."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Restarting:
    """Every worker restarts its part; how the connector will stand, by then."""

    plan: restart_plan.RestartPlan


Reply: TypeAlias = Accepted | Description | Put | Restarting | Forward | Refused

# The queue

QUEUE_MAX = 10_000


class QueueFull(Exception):
    """So many requests wait that another would only wait in vain."""


@dataclass(frozen=True, slots=True, order=True)
class Waiting:
    """A request in the queue: due at `at_s`; of those due together the first to come goes first.

    `ticket` is the asker's, None for the herder's own requests.
    """

    at_s: float
    sequence: int
    ticket: int | None = field(compare=False)
    request: Request = field(compare=False)


@dataclass(slots=True)
class RequestQueue:
    """Invariant: ordered by (time, sequence)."""

    _waiting: list[Waiting] = field(default_factory=list)
    _sequence: int = 0

    def add(self, request: Request, *, ticket: int | None, at_s: float) -> None:
        """Raises `QueueFull` for an asker's; the herder's own always find a place."""
        if ticket is not None and len(self._waiting) >= QUEUE_MAX:
            raise QueueFull(f"{len(self._waiting)} requests wait")
        self._sequence += 1
        waiting = Waiting(at_s=at_s, sequence=self._sequence, ticket=ticket, request=request)
        bisect.insort(self._waiting, waiting)

    def take_due(self, now_s: float) -> Waiting | None:
        if self._waiting and self._waiting[0].at_s <= now_s:
            return self._waiting.pop(0)
        return None

    def take_all(self) -> list[Waiting]:
        taken, self._waiting = self._waiting, []
        return taken

    def take_reconfigurations(self, connector: str) -> list[Reconfigure]:
        """Remove what waits to reconfigure this connector: a new request does for all of them."""
        taken = self._take_own(Reconfigure, connector)
        return [each for each in taken if isinstance(each, Reconfigure)]

    def drop_scheduled_restart(self, connector: str) -> None:
        """Remove the herder's own restart of this connector: it is scheduled anew, or not at all.

        (Values from a provider that live for some time: `config.action.reload`.)
        """
        self._take_own(RestartConnector, connector)

    def _take_own(
        self, kind: type[Reconfigure | RestartConnector], connector: str
    ) -> list[Reconfigure | RestartConnector]:
        kept, taken = [], []
        for each in self._waiting:
            ours = each.ticket is None
            if isinstance(each.request, kind) and ours and each.request.connector == connector:
                taken.append(each.request)
            else:
                kept.append(each)
        self._waiting = kept
        return taken

    @property
    def next_at_s(self) -> float | None:
        return self._waiting[0].at_s if self._waiting else None

    def check_invariants(self) -> None:
        assert self._waiting == sorted(self._waiting)
