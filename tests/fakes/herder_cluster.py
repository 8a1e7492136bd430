"""A Connect cluster without processes, brokers or time: real herders, real folds, real assignors.

Workers carry instructions out at once and truthfully, unless a test puts other outcomes (or what
makes one) in `Worker.outcomes`, or holds a worker's reading back with `reads_to`. Every item that
runs twice at the same moment is noted in `Cluster.doubles`.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base import ids
from connect_runtime.core.assignment import cooperative, leader, lost, member, protocol, work
from connect_runtime.core.herder import events, instructions, machine, memory, requests
from connect_runtime.core.state import (
    cluster_config,
    config_log,
    config_records,
    skipped,
    status_log,
    status_records,
)

KEY = b"k" * 32
STEPS_MAX = 20_000


@dataclass(eq=False)
class Worker:
    """One worker; `runs` is what really runs, with the configuration that it was started with."""

    name: str
    herder: machine.Herder
    member: member.Member
    log: config_log.ConfigLog = field(default_factory=config_log.ConfigLog)
    inbox: collections.deque[events.Event] = field(default_factory=collections.deque)
    runs: dict[work.Item, object] = field(default_factory=dict)
    said: list[instructions.Instruction] = field(default_factory=list)
    replies: dict[int, requests.Reply] = field(default_factory=dict)
    outcomes: dict[type, list[Any]] = field(default_factory=lambda: collections.defaultdict(list))
    reads_to: int | None = None
    position: int = 0
    assignor: cooperative.State = field(default_factory=cooperative.State)
    alive: bool = True
    in_group: bool = True
    last_ticket: int = 0

    @property
    def url(self) -> str:
        return f"http://{self.name}:8083/"

    def of(self, kind: type) -> list[Any]:
        """What it said of that kind."""
        return [each for each in self.said if isinstance(each, kind)]


@dataclass
class Cluster:
    """`plans` are the task configs that each connector gives; an outcome stands for itself."""

    speaks: protocol.Protocol = protocol.Protocol.SESSIONED
    delay_ms: int = 0
    settings: memory.HerderSettings = field(default_factory=memory.HerderSettings)
    now_s: float = 1000.0
    topic: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    statuses: status_log.StatusLog = field(default_factory=status_log.StatusLog)
    plans: dict[str, object] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    doubles: list[tuple[work.Item, str, str]] = field(default_factory=list)
    rounds: int = 0
    generation: int = 0
    round_wanted: bool = False
    awaited: set[str] = field(default_factory=set)
    metadata: dict[str, bytes] = field(default_factory=dict)
    configured: dict[str, work.Configured] = field(default_factory=dict)
    leading: str = ""

    # What a test does

    def join(self, name: str) -> Worker:
        """Another worker, that has read the config topic before it joins."""
        herder = machine.Herder(self.settings, self._seen(cluster_config.EMPTY))
        worker = Worker(name=name, herder=herder, member=member.Member.fresh(self.speaks))
        self.workers.append(worker)
        self._read(worker)
        worker.log.finish_replay()
        worker.inbox.append(events.Begun())
        self.round_wanted = True
        self.run()
        return worker

    def kill(self, worker: Worker) -> None:
        """It is gone, and the group notices."""
        worker.alive = False
        worker.runs.clear()
        self.awaited.discard(worker.name)
        self.metadata.pop(worker.name, None)
        self.round_wanted = True
        self.run()

    def ask(self, worker: Worker, request: requests.Request, delay_s: float = 0.0) -> int:
        worker.last_ticket += 1
        ticket = worker.last_ticket
        event = events.Submitted(ticket=ticket, request=request, delay_s=delay_s)
        self.tell(worker, event)
        return ticket

    def create(self, worker: Worker, name: str, tasks: int, **more: str) -> requests.Reply:
        self.plans[name] = [{"n": str(number)} for number in range(tasks)]
        request = requests.PutConnector(connector=name, config={"name": name, **more})
        return worker.replies[self.ask(worker, request)]

    def tell(self, worker: Worker, event: events.Event) -> None:
        worker.inbox.append(event)
        self.run()

    def write(self, *records: config_records.Record) -> None:
        """Somebody writes to the config topic."""
        self.topic += [(each.key, each.value) for each in records]
        self.run()

    def pass_time(self, seconds: float) -> None:
        """Time goes on, from one wake-up to the next."""
        end_s = self.now_s + seconds
        while True:
            times = [each.herder.wake_at_s() for each in self._alive()]
            due_s = min((each for each in times if each is not None), default=end_s)
            if due_s > end_s:
                break
            self.now_s = max(self.now_s, due_s)
            before = self.now_s
            for each in self._alive():
                each.inbox.append(events.TimePassed())
            self.run()
            if due_s >= end_s:
                break
            later = [each.herder.wake_at_s() for each in self._alive()]
            assert before not in later, "the herder wants to be woken for nothing"
        self.now_s = end_s
        self.run()

    def view(self) -> cluster_config.ClusterConfig:
        return max((each.log.snapshot() for each in self._alive()), key=lambda each: each.offset)

    def seen(self, worker: Worker) -> events.Seen:
        """What this worker sees now."""
        return self._seen(worker.log.snapshot())

    def owners(self) -> dict[str, str]:
        """Who runs what, by the printed item."""
        return {str(item): each.name for each in self._alive() for item in each.runs}

    # What happens then

    def _alive(self) -> list[Worker]:
        return [each for each in self.workers if each.alive]

    def _seen(self, view: cluster_config.ClusterConfig) -> events.Seen:
        return events.Seen(
            now_s=self.now_s,
            wall_ms=int(self.now_s * 1000),
            config=view,
            statuses=self.statuses.snapshot(),
        )

    def run(self) -> None:
        """Until nobody has anything left to do without time passing."""
        for _ in range(STEPS_MAX):
            for each in self._alive():
                self._read(each)
            busy = [each for each in self._alive() if each.inbox]
            if busy:
                self._step(busy[0])
            elif not self._meet():
                return
        raise AssertionError("the cluster never comes to rest")

    def _read(self, worker: Worker) -> None:
        end = len(self.topic) if worker.reads_to is None else worker.reads_to
        for offset in range(worker.position, min(end, len(self.topic))):
            key, value = self.topic[offset]
            change = worker.log.apply(key, value, offset=offset)
            worker.position = offset + 1
            if change is not None and not isinstance(change, skipped.Skipped):
                worker.inbox.append(events.ConfigChanged(change))
        worker.log.check_invariants()

    def _step(self, worker: Worker) -> None:
        event = worker.inbox.popleft()
        said = worker.herder.step(event, self.seen(worker))
        worker.herder.check_invariants()
        assert all(not isinstance(each, instructions.QUESTIONS) for each in said[:-1]), said
        for each in said:
            worker.said.append(each)
            if isinstance(each, instructions.QUESTIONS):
                self._answer(worker, each)
            else:
                self._obey(worker, each)

    def _answer(self, worker: Worker, question: instructions.Question) -> None:
        planned = worker.outcomes[type(question)]
        outcome = planned.pop(0) if planned else self._carry_out(worker, question)
        if callable(outcome):
            outcome = outcome()
        self._read(worker)
        worker.inbox.append(events.Answered(outcome))

    def _carry_out(self, worker: Worker, question: instructions.Question) -> events.Outcome:
        match question:
            case instructions.ReadConfigs() if worker.reads_to is not None:
                return events.TimedOut()
            case instructions.Write(write):
                self._append(write)
                acknowledged = isinstance(write, instructions.WriteTargetState)
                if worker.reads_to is not None and not acknowledged:
                    return events.Failed(reason="not read back in time")
            case instructions.StopWork(what):
                for item in what.items:
                    worker.runs.pop(item, None)
            case instructions.StartWork(what):
                return self._start(worker, what)
            case instructions.RenewTasks(tasks):
                view = worker.log.snapshot()
                changed = [
                    each for each in tasks if worker.runs.get(each) != view.task_config(each)
                ]
                return events.Renewed(frozenset(changed))
            case instructions.GenerateTaskConfigs(name):
                return self._generate(worker, name)
        return events.Done()

    def _append(self, write: instructions.ConfigWrite) -> None:
        match write:
            case instructions.WriteConnector():
                records = config_records.creation(write.connector, write.config, write.target_state)
            case instructions.RemoveConnector(name):
                records = config_records.removal(name)
            case instructions.WriteTaskConfigs():
                records = (
                    *config_records.task_configs(write.connector, write.configs),
                    config_records.commit(write.connector, len(write.configs)),
                )
            case instructions.WriteTargetState():
                records = (config_records.target_state(write.connector, write.state),)
            case instructions.WriteRestart(request):
                records = (config_records.restart(request),)
            case instructions.WriteNewSessionKey():
                key = cluster_config.SessionKey(
                    key=KEY, algorithm="HmacSHA256", created_ms=write.created_ms
                )
                records = (config_records.session_key(key),)
            case instructions.WriteFencingCount():
                records = (config_records.fencing_count(write.connector, write.tasks),)
        self.topic += [(each.key, each.value) for each in records]

    def _start(self, worker: Worker, what: work.Work) -> events.Outcome:
        view = worker.log.snapshot()
        failed = []
        for item in what.items:
            assert item not in worker.runs, f"{item} is started twice by {worker.name}"
            for other in self._alive():
                if item in other.runs:
                    self.doubles.append((item, other.name, worker.name))
            config = view.config(item) if isinstance(item, str) else view.task_config(item)
            if config is None:
                failed.append((item, "it is configured no more"))
                continue
            worker.runs[item] = config
            if isinstance(item, str):
                state = view.target_state(item)
                assert state is not None, item
                worker.inbox.append(events.ConnectorReached(connector=item, state=state))
            self.say(worker, item, status_records.State.RUNNING)
        return events.Started(tuple(failed))

    def say(self, worker: Worker, item: work.Item, state: status_records.State) -> None:
        status = status_records.Status(
            state=state, worker_id=worker.name, generation=self.generation
        )
        record = status_records.status(item, status)
        self.statuses.apply(record.key, record.value, offset=0)

    def _generate(self, worker: Worker, name: str) -> events.Outcome:
        plan = self.plans.get(name, events.NotRunning())
        if not isinstance(plan, list):
            return plan  # type: ignore[return-value]
        view = worker.log.snapshot()
        return events.Generated(
            configs=plan, config_applied=view.applied_config(name) == view.config(name)
        )

    def _obey(self, worker: Worker, order: instructions.Instruction) -> None:
        match order:
            case instructions.Answer(ticket, reply):
                assert ticket not in worker.replies, f"{ticket} is answered twice"
                worker.replies[ticket] = reply
            case instructions.SetTargetState() if order.connector in worker.runs:
                worker.inbox.append(
                    events.ConnectorReached(connector=order.connector, state=order.state)
                )
            case instructions.SayRestarting(what):
                for item in what.items:
                    self.say(worker, item, status_records.State.RESTARTING)
            case instructions.ForgetStatuses(subjects):
                for subject in subjects:
                    self.say(worker, subject, status_records.State.DESTROYED)
            case instructions.ForwardTaskConfigs():
                self._forward(worker, order)
            case _:
                self._obey_for_group(worker, order)

    def _obey_for_group(self, worker: Worker, order: instructions.Instruction) -> None:
        match order:
            case instructions.Rejoin():
                worker.in_group = self.round_wanted = True
            case instructions.Leave():
                worker.in_group, self.round_wanted = False, True
                self.awaited.discard(worker.name)
                self.metadata.pop(worker.name, None)
            case instructions.GiveUpWork():
                worker.member, _ = worker.member.given_up()
            case instructions.Prepared():
                self._prepared(worker)
            case instructions.Close():
                worker.alive = False
                self.round_wanted = True

    def _forward(self, worker: Worker, order: instructions.ForwardTaskConfigs) -> None:
        [target] = [each for each in self.workers if each.url == order.leader_url]
        told = events.TaskConfigsForwarded(token=order.token, error="unreachable")
        if target.alive:
            request = requests.PutTaskConfigs(connector=order.connector, configs=order.configs)
            target.last_ticket += 1
            submitted = events.Submitted(ticket=target.last_ticket, request=request)
            target.inbox.append(submitted)
            told = events.TaskConfigsForwarded(token=order.token)
        worker.inbox.append(told)

    def _prepared(self, worker: Worker) -> None:
        if worker.name not in self.awaited:
            return
        view = worker.log.snapshot()
        offers = dict(worker.member.metadata(worker.url, view.offset))
        self.metadata[worker.name] = offers[self.speaks.wire_name]
        self.configured[worker.name] = configured(view)
        self.awaited.discard(worker.name)

    def _meet(self) -> bool:
        """Begin or complete a round; False: there is none."""
        members = [each for each in self._alive() if each.in_group]
        if self.awaited or (not self.round_wanted and not self.metadata):
            return False
        if self.round_wanted:
            self.round_wanted = False
            self.metadata.clear()
            self.awaited = {each.name for each in members}
            for each in members:
                each.inbox.append(events.JoinAsked(each.member.stop_before_joining()))
            return bool(members)
        self._complete(members)
        return True

    def _complete(self, members: list[Worker]) -> None:
        names = [each.name for each in members]
        if self.leading not in names:
            self.leading = names[0]
        [leading] = [each for each in members if each.name == self.leading]
        self.generation += 1
        self.rounds += 1
        led = leader.lead(
            leader.Election(
                leader=self.leading,
                protocol=self.speaks,
                generation=self.generation,
                last_completed=leading.member.completed,
                members=dict(self.metadata),
            ),
            leader.Snapshots(
                joined_with=self.configured[self.leading],
                newest=configured(leading.log.snapshot()),
            ),
            leading.assignor,
            times=lost.Times(now_ms=int(self.now_s * 1000), delay_max_ms=self.delay_ms),
        )
        leading.assignor = led.state
        self.metadata.clear()
        for each in members:
            self._told(each, led)

    def _told(self, worker: Worker, led: leader.Lead) -> None:
        answer = worker.member.answered(
            led.answers[worker.name],
            protocol_name=self.speaks.wire_name,
            generation=self.generation,
        )
        worker.member = answer.member
        leads = worker.name == self.leading
        worker.inbox.append(
            events.RoundCompleted(
                generation=self.generation,
                speaks=self.speaks,
                assignment=answer.assignment,
                stop=answer.stop,
                leads=leads,
                owners=led.owners if leads else None,
            )
        )


def configured(view: cluster_config.ClusterConfig) -> work.Configured:
    """What the assignor plans from."""
    counts: Mapping[str, int] = {name: len(view.tasks(name)) for name in view.connectors()}
    return work.Configured(offset=view.offset, task_counts=counts)


def task(connector: str, number: int) -> ids.ConnectorTaskId:
    return ids.ConnectorTaskId(connector, number)
