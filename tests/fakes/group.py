"""A group of workers without a broker: `ports.group` for tests of those who use it.

Everything happens at once, on the thread of whoever calls; a round is over as soon as the last
member has prepared.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator

from connect_runtime.base.errors import FatalError
from connect_runtime.group import leader_assignment
from connect_runtime.group.assignor import AssignorState, RebalanceTimes
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork
from connect_runtime.group.leader_assignment import (
    AssignmentOwners,
    ConfiguredWorkSnapshots,
    LeaderAssignments,
    LeaderElection,
    MemberAssignment,
)
from connect_runtime.herder.herder_events import AssignmentReceived, CoordinatorLost, JoinRequested
from connect_runtime.herder.worker_group_interface import (
    GetConfiguredWork,
    GroupEvent,
    GroupFailed,
    OnGroupEvent,
)
from connect_runtime.system.system_clock import SystemClock

_CLOCK = SystemClock()


class FakeCoordinator:
    """One group. Members lead in the order in which they came."""

    def __init__(self, *, delay_max_ms: int = 0) -> None:
        self.lock = threading.RLock()
        self.generation = 0
        self._delay_max_ms = delay_max_ms
        self._newcomers: list[FakeGroup] = []
        self._every: list[FakeGroup] = []
        self._round: list[FakeGroup] = []
        self._there = True

    def member(
        self, name: str, *, offers: ConnectProtocol = ConnectProtocol.SESSIONED
    ) -> FakeGroup:
        """One that is no member before it is started."""
        return FakeGroup(self, name, offers=offers)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """For so long that all have to stop their work."""
        with self.lock:
            self._there = False
            for each in self._every:
                each.lose()
            self._newcomers += self._every
            self._every, self._round = [], []
        try:
            yield
        finally:
            with self.lock:
                self._there = True
                self.advance()

    def come(self, one: FakeGroup) -> None:
        """Nobody waits for it before it has prepared."""
        if one not in self._every and one not in self._newcomers:
            self._newcomers.append(one)

    def join(self, one: FakeGroup) -> None:
        if one in self._newcomers:
            self._newcomers.remove(one)
            self._every.append(one)

    def part(self, one: FakeGroup) -> None:
        for each in (self._newcomers, self._every):
            if one in each:
                each.remove(one)

    def advance(self) -> None:
        """Ask whom there is to ask; when all have prepared, complete the round."""
        if not self._there:
            return
        for each in self._newcomers:
            each.ask()
        others = self._every != self._round
        if not others and not any(each.wishes or each.ready for each in self._every):
            return
        for each in self._every:
            each.ask()
        if self._every and all(each.ready for each in self._every):
            self._complete()

    def _complete(self) -> None:
        self.generation += 1
        self._round = list(self._every)
        speaks = min((each.offers for each in self._round), key=list(ConnectProtocol).index)
        leads = self._round[0]
        lead = leads.lead(
            LeaderElection(
                leader=leads.id,
                protocol=speaks,
                generation=self.generation,
                last_completed=leads.completed,
                members={each.id: each.said[speaks.wire_name] for each in self._round},
            ),
            delay_max_ms=self._delay_max_ms,
        )
        for each in self._round:
            each.complete(
                lead.assignments[each.id],
                speaks=speaks,
                generation=self.generation,
                owners=lead.owners if each is leads else None,
                leads=each is leads,
            )


class FakeGroup:
    """`calls` has what the herder said, in order."""

    def __init__(self, at: FakeCoordinator, name: str, *, offers: ConnectProtocol) -> None:
        self.id = f"connect-{name}"
        self.offers = offers
        self.calls: list[str] = []
        self.wishes = False
        self.said: dict[str, bytes] = {}
        self._at = at
        self._url = f"http://{name}/"
        self._part = self._heard_part = MemberAssignment.create_initial(offers)
        self._state = AssignorState()
        self._joined_with = ConfiguredWork()
        self._news: list[GroupEvent] = []
        self._asked = False
        self._joined = False
        self._over = True
        self._on_news: OnGroupEvent = lambda: None
        self._configured: GetConfiguredWork = ConfiguredWork

    # the port

    @property
    def member_id(self) -> str:
        return self.id if self._joined else ""

    def start(self, on_event: OnGroupEvent, read_configured_work: GetConfiguredWork) -> None:
        with self._at.lock:
            self._on_news, self._configured, self._over = on_event, read_configured_work, False
            self._at.come(self)
            self._at.advance()

    def pop_events(self) -> list[GroupEvent]:
        with self._at.lock:
            taken, self._news = self._news, []
            self._heard_part = self._part
            return taken

    def report_herder_loop_alive(self) -> None:
        self.calls.append("ticked")

    def confirm_join_prepared(self) -> None:
        with self._at.lock:
            self.calls.append("prepared")
            unheard = any(isinstance(each, JoinRequested | CoordinatorLost) for each in self._news)
            if not self._asked or self.said or unheard or self._over:
                return
            self.wishes = False
            self._joined_with = self._configured()
            self.said = dict(self._part.build_metadata(self._url, self._joined_with.offset))
            self._at.join(self)
            self._at.advance()

    def rejoin_group(self, reason: str) -> None:
        with self._at.lock:
            self.calls.append(f"rejoin: {reason}")
            if not self._over:
                self.wishes = True
                self._at.come(self)
                self._at.advance()

    def leave_group(self, reason: str) -> None:
        with self._at.lock:
            self.calls.append(f"leave: {reason}")
            self._part = self._heard_part
            self._news = [each for each in self._news if isinstance(each, CoordinatorLost)]
            self._depart()

    def revoke_all_work(self) -> None:
        with self._at.lock:
            self.calls.append("give_up_work")
            self._part, _ = self._part.abandon_work()
            self._heard_part = self._part

    def close(self, timeout_s: float) -> None:
        with self._at.lock:
            if not self._over:
                self.calls.append("close")
                self._over = True
                self._news.clear()
                self._depart()

    # as `ports.worker.Membership`

    session_timeout_s = 10.0
    confirmed_s = -math.inf

    def get_last_heartbeat_s(self) -> float:
        return self.confirmed_s

    def request_heartbeat(self) -> None:
        with self._at.lock:
            if self._joined:
                self.confirmed_s = _CLOCK.now_s()

    # the test

    def fail(self, error: FatalError) -> None:
        """It cannot be a member any more."""
        with self._at.lock:
            self._over = True
            self._news.append(GroupFailed(error))
            self._depart()
        self._on_news()

    # the coordinator

    @property
    def ready(self) -> bool:
        return bool(self.said)

    @property
    def completed(self) -> int:
        return self._part.last_generation

    def ask(self) -> None:
        if not self._asked:
            self._asked, self._joined = True, False
            self._tell(JoinRequested(self._part.find_work_to_stop_before_join()))

    def lose(self) -> None:
        self._part, _ = self._part.abandon_work()
        self._asked, self._joined, self.wishes, self.said = False, False, True, {}
        self._news.clear()
        self._tell(CoordinatorLost("the test says so"))

    def lead(self, election: LeaderElection, *, delay_max_ms: int) -> LeaderAssignments:
        snapshots = ConfiguredWorkSnapshots(at_join=self._joined_with, newest=self._configured())
        times = RebalanceTimes(now_ms=round(_CLOCK.now_s() * 1000), delay_max_ms=delay_max_ms)
        made = leader_assignment.perform_assignment(election, snapshots, self._state, times=times)
        self._state = made.state
        return made

    def complete(
        self,
        data: bytes,
        *,
        speaks: ConnectProtocol,
        generation: int,
        owners: AssignmentOwners | None,
        leads: bool,
    ) -> None:
        answer = self._part.apply_assignment(
            data, protocol_name=speaks.wire_name, generation=generation
        )
        self._part = answer.member
        self._asked, self._joined, self.said = False, True, {}
        self._tell(
            AssignmentReceived(
                generation=generation,
                protocol=speaks,
                assignment=answer.assignment,
                items_to_stop=answer.work_to_stop,
                is_leader=leads,
                owners=owners,
            )
        )

    def _depart(self) -> None:
        self._asked, self._joined, self.wishes, self.said = False, False, False, {}
        self._at.part(self)
        self._at.advance()

    def _tell(self, news: GroupEvent) -> None:
        self._news.append(news)
        self._on_news()
