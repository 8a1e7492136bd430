"""Workers that follow the cooperative assignor's plans, and what must hold for every plan."""

from __future__ import annotations

import collections
from collections.abc import Collection
from dataclasses import dataclass, field

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import assignor, connectors_and_tasks
from connect_runtime.group.assignor import (
    AssignmentInput,
    AssignmentPlan,
    AssignorState,
    RebalanceTimes,
)
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks

DELAY_MAX_MS = 300_000


def tasks(connector: str, count: int, *, start: int = 0) -> tuple[ConnectorTaskId, ...]:
    return tuple(ConnectorTaskId(connector, start + each) for each in range(count))


def loads_of(members: dict[str, ConnectorsAndTasks]) -> tuple[list[int], list[int]]:
    """How many connectors and how many tasks members run, ascending."""
    return (
        sorted(len(held.connectors) for held in members.values()),
        sorted(len(held.tasks) for held in members.values()),
    )


@dataclass(slots=True)
class ConnectGroup:
    """Workers in a group, led by an assignor; every round's plan is checked as it is made."""

    connectors: dict[str, int] = field(default_factory=dict)
    members: dict[str, ConnectorsAndTasks] = field(default_factory=dict)
    delay_max_ms: int = DELAY_MAX_MS
    now_ms: int = 1_790_000_000_000
    generation: int = 1000
    state: AssignorState = field(default_factory=lambda: AssignorState(generation=1000))
    last: AssignmentPlan | None = None

    def join(self, *members: str, held: ConnectorsAndTasks = connectors_and_tasks.NO_WORK) -> None:
        for member in members:
            assert member not in self.members, member
            self.members[member] = held

    def leave(self, *members: str) -> None:
        for member in members:
            del self.members[member]

    def forget(self) -> None:
        """Another worker leads, and remembers nothing."""
        self.state = AssignorState(generation=self.generation)

    def configured(self) -> ConfiguredWork:
        return ConfiguredWork(offset=618, task_counts=self.connectors)

    def round(
        self,
        *,
        delivered: bool = True,
        missed: Collection[str] = (),
        completed_before: int = 1,
    ) -> AssignmentPlan:
        """One generation; not `delivered`: nobody hears of its plan; `missed`: these do not."""
        self.generation += 1
        asked = AssignmentInput(
            configured=self.configured(),
            members=dict(self.members),
            generation=self.generation,
            last_completed=self.generation - completed_before,
        )
        times = RebalanceTimes(now_ms=self.now_ms, delay_max_ms=self.delay_max_ms)
        plan = assignor.plan_cooperative_assignment(asked, self.state, times=times)
        self.state, self.last = plan.state, plan
        check(asked, plan)
        for member, held in self.members.items():
            if delivered and member not in missed:
                kept = held.difference(plan.revoked[member].items)
                self.members[member] = plan.assigned[member].union(kept)
                assert set(self.members[member].items) == set(plan.running[member].items)
        return plan

    @property
    def loads(self) -> tuple[list[int], list[int]]:
        return loads_of(self.members)

    @property
    def complete(self) -> bool:
        """Everything configured runs once, and nothing else."""
        running = [item for held in self.members.values() for item in held.items]
        return collections.Counter(running) == collections.Counter(
            self.configured().list_work().items
        )

    @property
    def even(self) -> bool:
        return all(sizes[-1] - sizes[0] <= 1 for sizes in self.loads)

    def settle(self, *, rounds_max: int = 40) -> int:
        """Rounds, each when the last one asks for it, until two in a row change nothing.

        Returns how many items were started or stopped.
        """
        changes, quiet = 0, 0
        for _ in range(rounds_max):
            plan = self.round()
            changes += moved(plan)
            quiet = 0 if moved(plan) or plan.delay_ms else quiet + 1
            if quiet == 2:
                return changes
            self.now_ms += plan.delay_ms
        raise AssertionError(f"still moving after {rounds_max} rounds: {self.loads}")


def check(asked: AssignmentInput, plan: AssignmentPlan) -> None:
    """What holds for every plan, whatever the members say."""
    for each in (plan.assigned, plan.revoked, plan.running):
        assert list(each) == list(asked.members)
    held = {item for work_ in asked.members.values() for item in work_.items}
    given = [item for work_ in plan.assigned.values() for item in work_.items]
    assert len(set(given)) == len(given), "given to two members"
    assert not held & set(given), "given to one while it runs with another"
    for member, before in asked.members.items():
        revoked = set(plan.revoked[member].items)
        assert not (revoked - set(before.items)) & held, "taken from one, and run by another"
        assert not revoked & set(given), "taken away and given out in one round"
        kept = set(before.items) - revoked
        assert set(plan.running[member].items) == kept | set(plan.assigned[member].items)
    assert plan.delay_ms >= 0
    assert (plan.delay_ms > 0) == (plan.state.delayed_rebalance.scheduled_ms is not None)


def moved(plan: AssignmentPlan) -> int:
    """How many items are started or stopped."""
    changes = (*plan.assigned.values(), *plan.revoked.values())
    return sum(len(each.items) for each in changes)
