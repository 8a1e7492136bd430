"""What the herder remembers between events, and what its scripts have in common.

A script is a generator that reads like the procedure it is: it yields instructions, is sent the
outcome of a question (None after an order), and may yield `Sleep`. One script runs at a time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from connect_runtime.base import ids
from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.herder import admission, events, instructions, requests, session_keys
from connect_runtime.core.state import cluster_config, config_log, config_records

SYNC_TRIES = 5


@dataclass(frozen=True, slots=True)
class Sleep:
    """Do nothing more of this script until then; the end of everything interrupts it."""

    until_s: float


T = TypeVar("T")
Script: TypeAlias = Generator["instructions.Instruction | Sleep", "events.Outcome | None", T]


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderSettings:
    """The worker's settings that the herder decides by, in seconds where they are times."""

    sync_timeout_s: float = 3.0
    unsync_backoff_s: float = 300.0
    rebalance_delay_max_s: float = 300.0
    topics_tracked: bool = True
    session_keys: session_keys.KeySettings = field(default_factory=session_keys.KeySettings)


@dataclass(slots=True)
class Changes:
    """What the config topic brought and nobody has acted on yet.

    Invariant: nothing here is forgotten before it was acted on, or made moot by a rebalance.
    """

    rebalance: bool = False
    connectors: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    tasks: set[ids.ConnectorTaskId] = field(default_factory=set)
    restarts: dict[str, config_records.RestartRequest] = field(default_factory=dict)
    levels: list[config_log.LoggerLevelSet] = field(default_factory=list)

    def any_configs(self) -> bool:
        return bool(self.rebalance or self.connectors or self.states or self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """Task configs that are on their way to the leader."""

    request: requests.Reconfigure


@dataclass(slots=True)
class Memory:
    """Invariants: `running` is what was begun and not stopped since, started well or not;
    `to_restart` is part of it; `joined` only with a `round`; `left` only without being joined."""

    settings: HerderSettings
    seen: events.Seen
    begun: bool = False
    config: cluster_config.ClusterConfig = cluster_config.EMPTY
    """What this worker acts by: taken up when it can act on the difference."""
    can_read: bool = True
    """Whether the last attempt to read the config topic to its end succeeded."""

    arrived: events.RoundCompleted | None = None
    """A round that was not taken up yet."""
    join_asked: work.Work | None = None
    lost: str | None = None
    round: events.RoundCompleted | None = None
    joined: bool = False
    """The round stands: no other was asked for, by us or by the group."""
    left: bool = False
    """This worker left the group of its own accord, and must ask to be a member again."""
    resolved: bool = False
    """What the round brought is begun."""
    led_before: bool = False
    """Whether this worker led by the last round whose work was begun."""
    due_s: float | None = None
    """When the group is to meet again, because the leader waits for a lost worker."""
    tries_left: int = SYNC_TRIES
    write_lost: bool = False
    """The privilege to write the config topic is lost, or was never gained."""

    running: work.Work = work.NO_WORK
    to_restart: set[ids.ConnectorTaskId] = field(default_factory=set)
    changes: Changes = field(default_factory=Changes)
    queue: requests.RequestQueue = field(default_factory=requests.RequestQueue)
    restarting: dict[str, list[int]] = field(default_factory=dict)
    """Who waits for a connector to be started again."""
    forwarded: dict[int, Forwarded] = field(default_factory=dict)
    last_token: int = 0
    closing: bool = False

    @property
    def leads(self) -> bool:
        return self.round is not None and self.round.leads

    @property
    def leader_url(self) -> str | None:
        return None if self.round is None else self.round.assignment.leader_url or None

    @property
    def assigned(self) -> work.Work:
        return work.NO_WORK if self.round is None else self.round.assignment.assigned

    @property
    def eager(self) -> bool:
        return self.round is not None and self.round.speaks is protocol.Protocol.EAGER

    @property
    def signs(self) -> bool:
        """Whether internal requests are signed, in this round."""
        return self.round is not None and self.round.speaks is protocol.Protocol.SESSIONED

    def standing(self) -> admission.Standing:
        """Requests are judged by the newest configurations: what the one before wrote counts."""
        return admission.Standing(
            config=self.seen.config,
            leads=self.leads,
            leader_url=self.leader_url,
            assigned=self.assigned,
            owners=None if self.round is None else self.round.owners,
            rebalance_pending=self.changes.rebalance,
        )

    def check_invariants(self) -> None:
        assert not self.joined or self.round is not None
        assert not (self.left and self.joined)
        assert not (self.left and self.arrived is not None), "a round of a group it has left"
        assert self.to_restart <= set(self.running.tasks), (self.to_restart, self.running)
        assert 0 <= self.tries_left <= SYNC_TRIES, self.tries_left
        self.queue.check_invariants()


def rejoin(memory: Memory, reason: str) -> Script[None]:
    """Ask for another round; until it comes, nothing is decided by this one."""
    memory.joined = False
    memory.left = False
    yield instructions.Rejoin(reason)


def stop(memory: Memory, what: work.Work, *, for_good: bool = True) -> Script[None]:
    """Stop it; `for_good`: it is not this worker's any more, as far as it knows."""
    if not what:
        return
    yield instructions.StopWork(what)
    if for_good:
        memory.running = memory.running.without(what.items)
        memory.to_restart -= set(what.tasks)


def start(memory: Memory, what: work.Work) -> Script[events.Started]:
    if not what:
        return events.Started()
    outcome = yield instructions.StartWork(what)
    memory.running = memory.running.then(what)
    return outcome if isinstance(outcome, events.Started) else events.Started()


def read_configs(memory: Memory) -> Script[bool]:
    """Read the config topic to its end, and act by what is there from now on."""
    outcome = yield instructions.ReadConfigs(memory.settings.sync_timeout_s)
    memory.can_read = isinstance(outcome, events.Done)
    if memory.can_read:
        memory.config = memory.seen.config
    return memory.can_read


def write(memory: Memory, what: instructions.ConfigWrite) -> Script[str | None]:
    """Write to the config topic; why not, if it did not work."""
    outcome = yield instructions.Write(what)
    if isinstance(outcome, events.Failed):
        memory.write_lost = memory.write_lost or outcome.fenced
        return outcome.reason
    return None
