"""What the herder can be told. Each is a fact; the machine decides what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from connect_runtime.base import ids
from connect_runtime.core.assignment import leader, protocol, work
from connect_runtime.core.herder import requests
from connect_runtime.core.state import cluster_config, config_log, status_log


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What can be seen at the moment of an event, told along with each.

    `config` and `statuses` are the stores' newest views: at least as new as the event.
    """

    now_s: float
    wall_ms: int
    config: cluster_config.ClusterConfig
    statuses: status_log.Statuses


@dataclass(frozen=True, slots=True)
class Begun:
    """The stores are read to their ends as of the start; to be told once, first."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing but that; to be told at the latest when `wake_at_s` says."""


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """A record of the config topic was read, in their order."""

    change: config_log.Change


# From the group


@dataclass(frozen=True, slots=True)
class JoinAsked:
    """The group is to be joined (again): `Prepared` is awaited, after `stop` has stopped."""

    stop: work.Work


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCompleted:
    """The group is joined.

    `assignment.assigned` is all that this worker is to run, what it ran before included; `stop` is
    to be stopped first. `leads` says whether this worker does; `owners` then who runs what.
    """

    generation: int
    speaks: protocol.Protocol
    assignment: protocol.Assignment
    stop: work.Work
    leads: bool
    owners: leader.Owners | None = None


@dataclass(frozen=True, slots=True)
class GroupLost:
    """No coordinator, for too long: others may be given this worker's work (KAFKA-9184)."""

    reason: str


# From the worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorReached:
    """A connector that was started, or set to another target state, is there.

    Or it is not, then `error` says why; one that was overtaken by a later wish has that for one.
    """

    connector: str
    state: cluster_config.TargetState
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReconfigurationWanted:
    """The connector says that its task configs would be others now."""

    connector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfigsForwarded:
    """What the leader said: `error` None for well done, else with its HTTP status if it had one."""

    token: int
    error: str | None = None
    status: int | None = None


# From askers


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Somebody asks; exactly one answer with this ticket follows. Due after `delay_s`.

    Without a ticket nobody is answered; of restarts of one connector only the last then counts.
    """

    ticket: int | None
    request: requests.Request
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """Stop everything, leave the group, end. The last order will be `Close`."""


# Answers to questions


@dataclass(frozen=True, slots=True)
class Done:
    """It is."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """It was not done in time, and may yet be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """It did not work; `fenced`, `lasting`: as the question says."""

    reason: str
    fenced: bool = False
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """All were begun but these: connectors and tasks with what was wrong.

    Where something is wrong with the thing itself its status is FAILED, and it waits for somebody
    to act; it counts as running here, all the same.
    """

    failed: tuple[tuple[work.Item, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Renewed:
    """All go on but these, which must be stopped and started anew."""

    left: frozenset[ids.ConnectorTaskId]


@dataclass(frozen=True, slots=True)
class NotRunning:
    """The connector does not run here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """Task configs as they are written: with `${…}` where the connector's configuration had it.

    `config_applied`: see `task_configs.changed`.
    """

    configs: Sequence[cluster_config.RawConfig] = field(repr=False)
    config_applied: bool


Outcome: TypeAlias = Done | TimedOut | Failed | Started | Renewed | NotRunning | Generated


@dataclass(frozen=True, slots=True)
class Answered:
    """The outstanding question has this outcome."""

    outcome: Outcome


Event: TypeAlias = (
    Begun
    | TimePassed
    | ConfigChanged
    | JoinAsked
    | RoundCompleted
    | GroupLost
    | ConnectorReached
    | ReconfigurationWanted
    | TaskConfigsForwarded
    | Submitted
    | ShutdownRequested
    | Answered
)
