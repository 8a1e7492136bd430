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

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import leader_assignment
from connect_runtime.group.assignor import AssignorState, RebalanceTimes
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks, WorkItem
from connect_runtime.group.leader_assignment import (
    ConfiguredWorkSnapshots,
    LeaderAssignments,
    LeaderElection,
    MemberAssignment,
)
from connect_runtime.herder import herder_actions
from connect_runtime.herder.distributed_herder import DistributedHerder
from connect_runtime.herder.herder_actions import (
    ApplyTargetState,
    BlockingAction,
    ConfigWrite,
    ConfirmJoinPrepared,
    DeleteStatuses,
    ForwardTaskConfigs,
    GenerateTaskConfigs,
    HerderAction,
    LeaveGroup,
    LeaveGroupPermanently,
    PublishRestartingStatuses,
    ReadConfigTopic,
    ReconfigureRunningTasks,
    RejoinGroup,
    RemoveConnectorConfig,
    RevokeAssignment,
    SendReply,
    StartConnectorsAndTasks,
    StopConnectorsAndTasks,
    WriteConfigTopic,
    WriteConnectorConfig,
    WriteRestartRequest,
    WriteSessionKey,
    WriteTargetState,
    WriteTaskConfigs,
    WriteTaskCount,
)
from connect_runtime.herder.herder_events import (
    ActionCompleted,
    ActionFailed,
    ActionOutcome,
    ActionSucceeded,
    ActionTimedOut,
    AssignmentReceived,
    ConfigRecordRead,
    ConnectorNotRunning,
    ConnectorsAndTasksStarted,
    ConnectorStateReached,
    HerderEvent,
    HerderTick,
    JoinRequested,
    RequestSubmitted,
    RunningTasksReconfigured,
    StoresLoaded,
    StoreSnapshot,
    TaskConfigsForwarded,
    TaskConfigsGenerated,
)
from connect_runtime.herder.herder_requests import (
    HerderReply,
    HerderRequest,
    PutConnector,
    PutTaskConfigs,
)
from connect_runtime.herder.herder_state import HerderSettings
from connect_runtime.storage import cluster_config_state, config_records, status_records
from connect_runtime.storage.cluster_config_state import ClusterConfigState, SessionKey
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.config_topic import ConfigTopicState
from connect_runtime.storage.internal_topic_log import SkippedRecord
from connect_runtime.storage.status_records import RunState, RunStatus
from connect_runtime.storage.status_topic import StatusTopicState

KEY = b"k" * 32
STEPS_MAX = 20_000


@dataclass(eq=False)
class Worker:
    """One worker; `runs` is what really runs, with the configuration that it was started with."""

    name: str
    herder: DistributedHerder
    member: MemberAssignment
    log: ConfigTopicState = field(default_factory=ConfigTopicState)
    inbox: collections.deque[HerderEvent] = field(default_factory=collections.deque)
    runs: dict[WorkItem, object] = field(default_factory=dict)
    said: list[HerderAction] = field(default_factory=list)
    replies: dict[int, HerderReply] = field(default_factory=dict)
    outcomes: dict[type, list[Any]] = field(default_factory=lambda: collections.defaultdict(list))
    reads_to: int | None = None
    position: int = 0
    assignor: AssignorState = field(default_factory=AssignorState)
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

    speaks: ConnectProtocol = ConnectProtocol.SESSIONED
    delay_ms: int = 0
    settings: HerderSettings = field(default_factory=HerderSettings)
    now_s: float = 1000.0
    topic: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    statuses: StatusTopicState = field(default_factory=StatusTopicState)
    plans: dict[str, object] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    doubles: list[tuple[WorkItem, str, str]] = field(default_factory=list)
    rounds: int = 0
    generation: int = 0
    round_wanted: bool = False
    awaited: set[str] = field(default_factory=set)
    metadata: dict[str, bytes] = field(default_factory=dict)
    configured: dict[str, ConfiguredWork] = field(default_factory=dict)
    leading: str = ""

    # What a test does

    def join(self, name: str) -> Worker:
        """Another worker, that has read the config topic before it joins."""
        herder = DistributedHerder(
            self.settings, self._seen(cluster_config_state.EMPTY_CONFIG_STATE)
        )
        worker = Worker(
            name=name, herder=herder, member=MemberAssignment.create_initial(self.speaks)
        )
        self.workers.append(worker)
        self._read(worker)
        worker.log.finish_replay()
        worker.inbox.append(StoresLoaded())
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

    def ask(self, worker: Worker, request: HerderRequest, delay_s: float = 0.0) -> int:
        worker.last_ticket += 1
        ticket = worker.last_ticket
        event = RequestSubmitted(ticket=ticket, request=request, delay_s=delay_s)
        self.tell(worker, event)
        return ticket

    def create(self, worker: Worker, name: str, tasks: int, **more: str) -> HerderReply:
        self.plans[name] = [{"n": str(number)} for number in range(tasks)]
        request = PutConnector(connector=name, config={"name": name, **more})
        return worker.replies[self.ask(worker, request)]

    def tell(self, worker: Worker, event: HerderEvent) -> None:
        worker.inbox.append(event)
        self.run()

    def write(self, *records: KeyedRecord) -> None:
        """Somebody writes to the config topic."""
        self.topic += [(each.key, each.value) for each in records]
        self.run()

    def pass_time(self, seconds: float) -> None:
        """Time goes on, from one wake-up to the next."""
        end_s = self.now_s + seconds
        while True:
            times = [each.herder.get_next_tick_s() for each in self._alive()]
            due_s = min((each for each in times if each is not None), default=end_s)
            if due_s > end_s:
                break
            self.now_s = max(self.now_s, due_s)
            before = self.now_s
            for each in self._alive():
                each.inbox.append(HerderTick())
            self.run()
            if due_s >= end_s:
                break
            later = [each.herder.get_next_tick_s() for each in self._alive()]
            assert before not in later, "the herder wants to be woken for nothing"
        self.now_s = end_s
        self.run()

    def view(self) -> ClusterConfigState:
        return max((each.log.snapshot() for each in self._alive()), key=lambda each: each.offset)

    def seen(self, worker: Worker) -> StoreSnapshot:
        """What this worker sees now."""
        return self._seen(worker.log.snapshot())

    def owners(self) -> dict[str, str]:
        """Who runs what, by the printed item."""
        return {str(item): each.name for each in self._alive() for item in each.runs}

    # What happens then

    def _alive(self) -> list[Worker]:
        return [each for each in self.workers if each.alive]

    def _seen(self, view: ClusterConfigState) -> StoreSnapshot:
        return StoreSnapshot(
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
            change = worker.log.apply_record(key, value, offset=offset)
            worker.position = offset + 1
            if change is not None and not isinstance(change, SkippedRecord):
                worker.inbox.append(ConfigRecordRead(change))
        worker.log.check_invariants()

    def _step(self, worker: Worker) -> None:
        event = worker.inbox.popleft()
        said = worker.herder.process_event(event, self.seen(worker))
        worker.herder.check_invariants()
        assert all(not isinstance(each, herder_actions.BLOCKING_ACTIONS) for each in said[:-1]), (
            said
        )
        for each in said:
            worker.said.append(each)
            if isinstance(each, herder_actions.BLOCKING_ACTIONS):
                self._answer(worker, each)
            else:
                self._obey(worker, each)

    def _answer(self, worker: Worker, question: BlockingAction) -> None:
        planned = worker.outcomes[type(question)]
        outcome = planned.pop(0) if planned else self._carry_out(worker, question)
        if callable(outcome):
            outcome = outcome()
        self._read(worker)
        worker.inbox.append(ActionCompleted(outcome))

    def _carry_out(self, worker: Worker, question: BlockingAction) -> ActionOutcome:
        match question:
            case ReadConfigTopic() if worker.reads_to is not None:
                return ActionTimedOut()
            case WriteConfigTopic(write):
                self._append(write)
                acknowledged = isinstance(write, WriteTargetState)
                if worker.reads_to is not None and not acknowledged:
                    return ActionFailed(reason="not read back in time")
            case StopConnectorsAndTasks(what):
                for item in what.items:
                    worker.runs.pop(item, None)
            case StartConnectorsAndTasks(what):
                return self._start(worker, what)
            case ReconfigureRunningTasks(tasks):
                view = worker.log.snapshot()
                changed = [
                    each for each in tasks if worker.runs.get(each) != view.task_config(each)
                ]
                return RunningTasksReconfigured(frozenset(changed))
            case GenerateTaskConfigs(name):
                return self._generate(worker, name)
        return ActionSucceeded()

    def _append(self, write: ConfigWrite) -> None:
        match write:
            case WriteConnectorConfig():
                records = config_records.encode_connector_creation(
                    write.connector, write.config, write.target_state
                )
            case RemoveConnectorConfig(name):
                records = config_records.encode_connector_deletion(name)
            case WriteTaskConfigs():
                records = (
                    *config_records.encode_task_configs(write.connector, write.configs),
                    config_records.encode_task_config_commit(write.connector, len(write.configs)),
                )
            case WriteTargetState():
                records = (config_records.encode_target_state(write.connector, write.state),)
            case WriteRestartRequest(request):
                records = (config_records.encode_restart_request(request),)
            case WriteSessionKey():
                key = SessionKey(key=KEY, algorithm="HmacSHA256", created_ms=write.created_ms)
                records = (config_records.encode_session_key(key),)
            case WriteTaskCount():
                records = (config_records.encode_fencing_count(write.connector, write.tasks),)
        self.topic += [(each.key, each.value) for each in records]

    def _start(self, worker: Worker, what: ConnectorsAndTasks) -> ActionOutcome:
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
                worker.inbox.append(ConnectorStateReached(connector=item, state=state))
            self.say(worker, item, RunState.RUNNING)
        return ConnectorsAndTasksStarted(tuple(failed))

    def say(self, worker: Worker, item: WorkItem, state: RunState) -> None:
        status = RunStatus(state=state, worker_id=worker.name, generation=self.generation)
        record = status_records.encode_status(item, status)
        self.statuses.apply_record(record.key, record.value, offset=0)

    def _generate(self, worker: Worker, name: str) -> ActionOutcome:
        plan = self.plans.get(name, ConnectorNotRunning())
        if not isinstance(plan, list):
            return plan  # type: ignore[return-value]
        view = worker.log.snapshot()
        return TaskConfigsGenerated(
            configs=plan, config_applied=view.applied_config(name) == view.config(name)
        )

    def _obey(self, worker: Worker, order: HerderAction) -> None:
        match order:
            case SendReply(ticket, reply):
                assert ticket not in worker.replies, f"{ticket} is answered twice"
                worker.replies[ticket] = reply
            case ApplyTargetState() if order.connector in worker.runs:
                worker.inbox.append(
                    ConnectorStateReached(connector=order.connector, state=order.state)
                )
            case PublishRestartingStatuses(what):
                for item in what.items:
                    self.say(worker, item, RunState.RESTARTING)
            case DeleteStatuses(subjects):
                for subject in subjects:
                    self.say(worker, subject, RunState.DESTROYED)
            case ForwardTaskConfigs():
                self._forward(worker, order)
            case _:
                self._obey_for_group(worker, order)

    def _obey_for_group(self, worker: Worker, order: HerderAction) -> None:
        match order:
            case RejoinGroup():
                worker.in_group = self.round_wanted = True
            case LeaveGroup():
                worker.in_group, self.round_wanted = False, True
                self.awaited.discard(worker.name)
                self.metadata.pop(worker.name, None)
            case RevokeAssignment():
                worker.member, _ = worker.member.abandon_work()
            case ConfirmJoinPrepared():
                self._prepared(worker)
            case LeaveGroupPermanently():
                worker.alive = False
                self.round_wanted = True

    def _forward(self, worker: Worker, order: ForwardTaskConfigs) -> None:
        [target] = [each for each in self.workers if each.url == order.leader_url]
        told = TaskConfigsForwarded(token=order.token, error="unreachable")
        if target.alive:
            request = PutTaskConfigs(connector=order.connector, configs=order.configs)
            target.last_ticket += 1
            submitted = RequestSubmitted(ticket=target.last_ticket, request=request)
            target.inbox.append(submitted)
            told = TaskConfigsForwarded(token=order.token)
        worker.inbox.append(told)

    def _prepared(self, worker: Worker) -> None:
        if worker.name not in self.awaited:
            return
        view = worker.log.snapshot()
        offers = dict(worker.member.build_metadata(worker.url, view.offset))
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
                each.inbox.append(JoinRequested(each.member.find_work_to_stop_before_join()))
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
        led = leader_assignment.perform_assignment(
            LeaderElection(
                leader=self.leading,
                protocol=self.speaks,
                generation=self.generation,
                last_completed=leading.member.last_generation,
                members=dict(self.metadata),
            ),
            ConfiguredWorkSnapshots(
                at_join=self.configured[self.leading],
                newest=configured(leading.log.snapshot()),
            ),
            leading.assignor,
            times=RebalanceTimes(now_ms=int(self.now_s * 1000), delay_max_ms=self.delay_ms),
        )
        leading.assignor = led.state
        self.metadata.clear()
        for each in members:
            self._told(each, led)

    def _told(self, worker: Worker, led: LeaderAssignments) -> None:
        answer = worker.member.apply_assignment(
            led.assignments[worker.name],
            protocol_name=self.speaks.wire_name,
            generation=self.generation,
        )
        worker.member = answer.member
        leads = worker.name == self.leading
        worker.inbox.append(
            AssignmentReceived(
                generation=self.generation,
                protocol=self.speaks,
                assignment=answer.assignment,
                items_to_stop=answer.work_to_stop,
                is_leader=leads,
                owners=led.owners if leads else None,
            )
        )


def configured(view: ClusterConfigState) -> ConfiguredWork:
    """What the assignor plans from."""
    counts: Mapping[str, int] = {name: len(view.tasks(name)) for name in view.connectors()}
    return ConfiguredWork(offset=view.offset, task_counts=counts)


def task(connector: str, number: int) -> ConnectorTaskId:
    return ConnectorTaskId(connector, number)
