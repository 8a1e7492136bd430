"""Questions of partitions' scripts on their way to brokers, and answers on their way back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import kio.index
import pytest
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from connect_runtime.network.cluster_connections import ClientResponse, RawClientResponse
from connect_runtime.protocol import api_versions, request_builders, request_framing
from connect_runtime.protocol.request_builders import AnyNodeTarget, CoordinatorKey, NodeTarget
from connect_runtime.protocol.request_errors import (
    ConnectionFailed,
    CoordinatorLookupRefused,
    UnsupportedVersion,
)
from mm2.copier import partition_recovery_requests
from mm2.copier.partition_recovery_requests import RecoveryRequests
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    CommitTransaction,
    Delay,
    EpochEnd,
    FindEpochEnd,
    FindOpenTransactions,
    FindReverseFlowProducers,
    FindSourceOffset,
    FindTargetEnd,
    InitIdempotentProducer,
    InitProducer,
    InstructionDone,
    InstructionRefused,
    NoResponse,
    ReadSource,
    ReadTarget,
    RequestAcquisition,
    ReverseFlowProducers,
    SourceLogOffset,
    TargetEnd,
)
from tests.fakes import scripts, taking
from tests.support import scripted_broker

VERSION = 12
LOST = ConnectionFailed("a:9092", "reset")
US = taking.US
NODE = NodeTarget(1)


class Side:
    """A cluster that notes what it is asked; `leaders` of its partitions, 1 for most."""

    def __init__(self):
        self.calls = []
        self.raw = []
        self.leaders = {}
        self.error_code = 0
        self.version: int | None = VERSION
        self.offered: list[tuple[int, int]] = []
        self.unreachable: Exception | None = None
        self.refreshes = 0
        self.forgotten = []
        self.heard = True
        self.view = SimpleNamespace(get_leader=self._leader, get_topic=self._topic)

    def _leader(self, topic, number):
        node_id = self.leaders.get((topic, number), 1)
        return None if node_id is None else SimpleNamespace(node_id=node_id)

    def _topic(self, name):
        return SimpleNamespace(error_code=self.error_code) if self.heard else None

    def call(self, to, message, *, done, **more):
        self.calls.append((to, message, done))

    def call_with_encoded_body(self, node_id, *, done, **more):
        self.raw.append((node_id, done))

    def choose_version(self, node_id, api_key, low, high):
        self.offered.append((low, high))
        return self.version

    def get_connection_error(self, node_id):
        return self.unreachable

    def refresh_metadata(self):
        self.refreshes += 1

    def forget_coordinator(self, kind, key):
        self.forgotten.append((kind, key))

    def answer(self, body, *, failure=None):
        """The oldest call."""
        _, _, done = self.calls.pop(0)
        done(ClientResponse(body, 1, failure, True, 1, 0.1))

    def answer_raw(self, body, *, failure=None):
        _, done = self.raw.pop(0)
        view = memoryview(bytearray(body)) if body is not None else None
        done(RawClientResponse(view, VERSION, failure, True, 1, 0.1))

    @property
    def asked(self):
        return [(to, message.api) for to, message, _ in self.calls]


class World:
    def __init__(self, *, granted=False, partitions=3):
        self.source, self.target = Side(), Side()
        self.answers: list[tuple[int, Any]] = []
        self.now_s = 10.0
        self.questions = RecoveryRequests(
            source=cast(Any, self.source),
            target=cast(Any, self.target),
            driver=cast(Any, None),
            on_answer=lambda copy, answer: self.answers.append((copy.setup.partition, answer)),
            clock=cast(Any, SimpleNamespace(now_s=lambda: self.now_s)),
            granted=granted,
        )
        self.copies = [
            cast(
                Any,
                SimpleNamespace(
                    setup=taking.where(partition=each), script_runner=SimpleNamespace(token=1)
                ),
            )
            for each in range(partitions)
        ]

    def ask(self, instruction, *partitions, flush=True):
        for each in partitions or (0,):
            self.questions.submit_instruction(self.copies[each], instruction, 10.0)
        if flush:
            self.questions.send_queued_requests(10.0)

    def answered(self):
        """What was answered since the last time, by partition."""
        found, self.answers[:] = dict(self.answers), []
        return found


def entity(message, version):
    """What would be sent."""
    return message.build_request_message(version)


# What the worker answers


def test_the_worker_is_asked_whose_producer_ids_are():
    world = World()
    asked: list[Any] = []
    world.questions._driver = cast(
        Any,
        SimpleNamespace(
            request_reverse_flow_producers=lambda ids, on_answer: asked.append((ids, on_answer))
        ),
    )
    world.ask(FindReverseFlowProducers(producers=(4, 5)))
    ((producers, answered),) = asked
    answered(ReverseFlowProducers(producers=frozenset({4})))
    assert producers == (4, 5)
    assert world.answered() == {0: ReverseFlowProducers(producers=frozenset({4}))}
    assert world.target.calls == world.source.calls == []


def test_what_the_group_has_just_confirmed_needs_no_question_the_first_time():
    world = World(granted=True)
    asked: list[Any] = []
    world.questions._driver = cast(
        Any,
        SimpleNamespace(request_acquisition_permission=lambda on_answer: asked.append(on_answer)),
    )
    world.ask(RequestAcquisition(), 0, 1)
    assert world.answered() == {0: InstructionDone(), 1: InstructionDone()}
    assert asked == []
    world.ask(RequestAcquisition(), 1, 2)
    assert (len(asked), world.answered()) == (1, {2: InstructionDone()})
    asked[0](InstructionDone())
    assert world.answered() == {1: InstructionDone()}


# Before anything was heard of a topic


def test_where_a_log_ends_is_asked_once_its_topic_was_heard_of():
    world = World()
    world.target.heard = False
    world.ask(FindTargetEnd(), 0, 1)
    assert world.answered() == {}
    assert world.target.asked == []
    world.copies[1].script_runner.token += 1  # it was given up meanwhile
    world.questions.send_queued_requests(11.0)
    world.target.heard = True
    world.questions.send_queued_requests(12.0)
    ((_, message, _),) = world.target.calls
    (topic,) = entity(message, 5).topics
    assert [each.partition_index for each in topic.partitions] == [0]


# Answers that come too late, and sleep


def test_an_abandoned_scripts_question_is_dropped_unanswered():
    world = World()
    world.ask(InitProducer())
    world.copies[0].script_runner.token = 2
    world.target.answer(SimpleNamespace(error_code=0, producer_id=7, producer_epoch=3))
    assert world.answered() == {}


def test_a_sleeper_wakes_when_its_time_has_come():
    world = World()
    assert world.questions.find_next_delay_end_s() == float("inf")
    world.ask(Delay(delay_s=0.5), 0)
    world.ask(Delay(delay_s=2.0), 1)
    assert world.questions.find_next_delay_end_s() == 10.5
    world.questions.send_queued_requests(10.4)
    assert world.answered() == {}
    world.questions.send_queued_requests(10.5)
    assert world.answered() == {0: scripts.DONE}
    assert world.questions.find_next_delay_end_s() == 12.0


def test_who_computes_for_long_whenever_it_wakes_leaves_the_loop_its_turn():
    world = World(partitions=5)
    woken = []

    def answered(copy, answer):
        woken.append(copy.setup.partition)
        world.now_s += 0.6 * partition_recovery_requests.MAX_COMPUTE_TIME_S
        world.questions.submit_instruction(copy, Delay(delay_s=0.0), world.now_s)

    world.questions._on_answer = answered
    world.ask(Delay(delay_s=0.0), 0, 1, 2, 3, 4, flush=False)
    for _ in range(5):
        world.questions.send_queued_requests(world.now_s)
    assert woken == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


# Coordinators


def added(code):
    partition = SimpleNamespace(partition_error_code=code)
    return SimpleNamespace(
        results_by_topic_v3_and_below=[SimpleNamespace(results_by_partition=[partition])]
    )


@pytest.mark.parametrize(
    ("instruction", "api", "body", "answer"),
    [
        (
            InitProducer(),
            "init_producer_id",
            SimpleNamespace(error_code=0, producer_id=7, producer_epoch=3),
            US,
        ),
        (
            AddToTransaction(producer=US),
            "add_partitions_to_txn",
            added(0),
            scripts.DONE,
        ),
        (
            CommitTransaction(producer=US),
            "end_txn",
            SimpleNamespace(error_code=0),
            scripts.DONE,
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_coordinator_is_asked_at_once(instruction, api, body, answer):
    world = World()
    world.ask(instruction, flush=False)
    to = CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, "mm2-a-b-orders-4")
    assert world.target.asked == [(to, api)]
    world.target.answer(body)
    assert world.answered() == {0: answer}


def test_a_producer_id_without_a_transactional_one_is_asked_of_any_broker():
    world = World()
    world.ask(InitIdempotentProducer(), flush=False)
    assert world.target.asked == [(AnyNodeTarget(), "init_producer_id")]
    world.target.answer(SimpleNamespace(error_code=0, producer_id=7, producer_epoch=3))
    assert world.answered() == {0: US}
    world.ask(InitIdempotentProducer())
    world.target.answer(SimpleNamespace(error_code=31, producer_id=-1, producer_epoch=-1))
    (answer,) = world.answered().values()
    assert (answer.code, answer.message[:15]) == (31, "InitProducerId:")


@pytest.mark.parametrize(("code", "forgets"), [(15, True), (16, True), (47, False), (51, False)])
def test_a_coordinators_refusal_is_named_and_one_that_moved_is_looked_up_again(code, forgets):
    for instruction, body in (
        (AddToTransaction(producer=US), added(code)),
        (CommitTransaction(producer=US), SimpleNamespace(error_code=code)),
    ):
        world = World()
        world.ask(instruction)
        world.target.answer(body)
        answer = world.answered()[0]
        assert answer.code == code
        assert (
            f"transactional id mm2-a-b-orders-4: {ErrorCode(code).name.upper()}" in answer.message
        )
        assert world.target.forgotten == ([(1, "mm2-a-b-orders-4")] if forgets else [])


def test_a_coordinator_that_may_not_be_looked_for_is_a_refusal():
    """Without DESCRIBE on the transactional id that is all there is to see of the missing right."""
    world = World()
    world.ask(InitProducer())
    refused = CoordinatorLookupRefused("transactional id mm2-a-b-orders-4", error_code=53)
    world.target.answer(None, failure=refused)
    assert world.answered() == {0: InstructionRefused(code=53, message=str(refused))}


def test_a_coordinator_that_does_not_answer_leaves_the_question_unanswered():
    world = World()
    world.ask(InitProducer())
    world.target.answer(None, failure=LOST)
    assert world.answered() == {0: NoResponse(reason=str(LOST))}


# Offsets and epochs


def offsets(topic, *found):
    partitions = [
        SimpleNamespace(partition_index=number, error_code=code, offset=offset, leader_epoch=4)
        for number, code, offset in found
    ]
    return SimpleNamespace(topics=[SimpleNamespace(name=topic, partitions=partitions)])


def test_partitions_of_one_leader_share_a_request_and_others_have_their_own():
    world = World()
    world.target.leaders = {("a.orders", 2): 5}
    world.ask(FindTargetEnd(), 0, 1, 2)
    assert world.target.asked == [(NODE, "list_offsets"), (NodeTarget(5), "list_offsets")]
    world.target.answer(offsets("a.orders", (0, 0, 50), (1, 6, -1)))
    found = world.answered()
    assert found[0] == TargetEnd(offset=50, leader_epoch=4)
    assert found[1].code == 6
    assert found[1].message == "a.orders-1: NOT_LEADER_OR_FOLLOWER (6)"
    assert world.target.refreshes == 1
    world.target.answer(offsets("a.orders"))
    assert world.answered() == {2: NoResponse(reason="the response does not contain the partition")}


@pytest.mark.parametrize(
    ("position", "timestamp"), [("earliest", -2), ("latest", -1), ("1700000000000", 1700000000000)]
)
def test_a_source_offset_is_looked_up_by_name_or_time(position, timestamp):
    world = World()
    world.ask(FindSourceOffset(position=position))
    ((_, message, _),) = world.source.calls
    asked = entity(message, 6)
    assert asked.isolation_level == 1
    assert asked.topics[0].name == "orders"
    assert asked.topics[0].partitions[0].timestamp == timestamp
    world.source.answer(offsets("orders", (0, 0, 99)))
    assert world.answered() == {0: SourceLogOffset(offset=99)}


def test_the_end_of_an_epoch_is_asked_of_the_mirrors_leader():
    world = World()
    world.ask(FindEpochEnd(leader_epoch=3, current_leader_epoch=4), 0, 1)
    ((to, message, _),) = world.target.calls
    assert (to, message.api) == (NODE, "offset_for_leader_epoch")
    asked = entity(message, 3).topics[0].partitions[0]
    assert (asked.current_leader_epoch, asked.leader_epoch) == (4, 3)
    partitions = [SimpleNamespace(partition=0, error_code=0, end_offset=40)]
    body = SimpleNamespace(topics=[SimpleNamespace(topic="a.orders", partitions=partitions)])
    world.target.answer(body)
    found = world.answered()
    assert found[0] == EpochEnd(offset=40)
    assert found[1] == NoResponse(reason="the response does not contain the partition")


def producers(number, *states, error_code=0):
    """Of one partition: (producer id, where its open transaction begins, -1 for none)."""
    return SimpleNamespace(
        partition_index=number,
        error_code=error_code,
        active_producers=[
            SimpleNamespace(producer_id=producer_id, current_txn_start_offset=start)
            for producer_id, start in states
        ],
    )


def test_open_transactions_are_asked_of_the_mirrors_leader():
    world = World()
    world.ask(FindOpenTransactions(), 0, 1, 2)
    ((to, message, _),) = world.target.calls
    assert (to, message.api) == (NODE, "describe_producers")
    assert entity(message, 0).topics[0].partition_indexes == (0, 1, 2)
    told = [producers(0, (5, -1), (7, 40), (9, 0)), producers(1, error_code=6)]
    body = SimpleNamespace(topics=[SimpleNamespace(name="a.orders", partitions=told)])
    world.target.answer(body)
    found = world.answered()
    begun = [(each.producer_id, each.start) for each in found[0].transactions]
    assert begun == [(7, 40), (9, 0)]
    assert (type(found[1]), found[1].code) == (InstructionRefused, 6)
    assert found[2] == NoResponse(reason="the response does not contain the partition")


def test_of_open_transactions_a_leader_is_asked_50_partitions_at_a_time():
    world = World(partitions=120)
    world.target.leaders = {("a.orders", 119): 2}
    world.ask(FindOpenTransactions(), *range(120))
    world.questions.send_queued_requests(11.0)
    assert [to for to, _, _ in world.target.calls] == [NODE, NodeTarget(2)]
    sizes = []
    while world.target.calls:
        _, message, _ = world.target.calls[0]
        asked = entity(message, 0).topics[0].partition_indexes
        sizes.append(len(asked))
        told = [producers(each) for each in asked]
        body = SimpleNamespace(topics=[SimpleNamespace(name="a.orders", partitions=told)])
        world.target.answer(body)
        world.questions.send_queued_requests(12.0)
    assert sizes == [50, 1, 50, 19]
    assert len(world.answered()) == 120


def test_where_one_such_question_is_lost_the_next_is_asked():
    world = World(partitions=60)
    world.ask(FindOpenTransactions(), *range(60))
    world.target.answer(None, failure=LOST)
    world.questions.send_queued_requests(11.0)
    assert len(world.answered()) == 50
    ((_, message, _),) = world.target.calls
    assert len(entity(message, 0).topics[0].partition_indexes) == 10


def test_a_broker_that_does_not_know_the_question_refuses_it():
    world = World()
    world.ask(FindOpenTransactions())
    unknown = UnsupportedVersion(
        "describe_producers", client_versions=(0, 0), broker_versions=None, address="a:9092"
    )
    world.target.answer(None, failure=unknown)
    assert world.answered() == {0: InstructionRefused(code=35, message=str(unknown))}


@pytest.mark.parametrize(
    "instruction",
    [
        FindTargetEnd(),
        FindEpochEnd(leader_epoch=3, current_leader_epoch=4),
        FindOpenTransactions(),
    ],
)
def test_a_leader_that_does_not_answer_leaves_all_its_questions_unanswered(instruction):
    world = World()
    world.ask(instruction, 0, 1)
    world.target.answer(None, failure=LOST)
    lost = NoResponse(reason=str(LOST))
    assert world.answered() == {0: lost, 1: lost}


@pytest.mark.parametrize(
    ("error_code", "code", "text"),
    [
        (0, 5, "a.orders-0 has no leader"),
        (3, 3, "a.orders-0: the topic does not exist (deleted?)"),
    ],
)
@pytest.mark.parametrize(
    "instruction",
    [
        FindTargetEnd(),
        FindEpochEnd(leader_epoch=3, current_leader_epoch=4),
        FindOpenTransactions(),
        ReadTarget(offset=3),
    ],
)
def test_a_partition_without_a_leader_is_answered_so(instruction, error_code, code, text):
    world = World()
    world.target.leaders = {("a.orders", 0): None}
    world.target.error_code = error_code
    world.ask(instruction)
    assert world.answered() == {0: InstructionRefused(code=code, message=text)}
    assert (world.target.refreshes, world.target.calls, world.target.raw) == (1, [], [])


# Reading


def fetched(topic, *partitions, error_code=0, stable=15):
    module = kio.index.load_payload_module(1, VERSION, EntityType.response)
    held = tuple(
        module.PartitionData(
            partition_index=number,
            error_code=ErrorCode(code),
            high_watermark=20,
            last_stable_offset=stable,
            log_start_offset=log_start,
            aborted_transactions=(),
            preferred_read_replica=-1,
            records=records,
        )
        for number, code, log_start, records in partitions
    )
    response = module.FetchResponse(
        throttle_time=scripted_broker.NO_TIME,
        error_code=ErrorCode(error_code),
        session_id=0,
        responses=(module.FetchableTopicResponse(topic=topic, partitions=held),),
    )
    return request_framing.encode_request_body(response)


@pytest.mark.parametrize(
    ("of_target", "end", "stable"),
    [(True, 20, 15), (False, 15, None)],
    ids=["of the target", "of the source"],
)
def test_what_is_read_ends_where_its_reader_may_see(of_target, end, stable):
    world = World()
    side, topic = (world.target, "a.orders") if of_target else (world.source, "orders")
    question = ReadTarget if of_target else ReadSource
    world.ask(question(offset=3), 0, 1)
    assert [node_id for node_id, _ in side.raw] == [1]
    side.answer_raw(fetched(topic, (0, 0, 2, b"batches")))
    found = world.answered()
    assert (bytes(found[0].records), found[0].log_start, found[0].end) == (b"batches", 2, end)
    assert found[0].last_stable_offset == stable
    assert found[1] == NoResponse(reason="the response does not contain the partition")


def test_a_last_stable_offset_that_the_broker_does_not_know_is_not_told():
    world = World()
    world.ask(ReadTarget(offset=3))
    world.target.answer_raw(fetched("a.orders", (0, 0, 2, b""), stable=-1))
    assert world.answered()[0].last_stable_offset is None


def test_a_topic_without_an_id_is_read_by_name():
    world = World()
    world.ask(ReadTarget(offset=3))
    world.ask(ReadSource(offset=3))
    assert (world.target.offered, world.source.offered) == ([(12, 12)], [(12, 12)])
    world.copies[0].setup = taking.where(partition=0, target_topic_id=b"2" * 16)
    world.target.answer_raw(fetched("a.orders", (0, 0, 0, b"")))
    world.ask(ReadTarget(offset=3))
    assert world.target.offered[1:] == [api_versions.FETCH_VERSIONS]


def test_a_leader_is_read_from_once_at_a_time():
    world = World()
    world.ask(ReadTarget(offset=3), 0)
    world.ask(ReadTarget(offset=3), 1)
    world.ask(ReadSource(offset=3), 2)
    assert (len(world.target.raw), len(world.source.raw)) == (1, 1)
    world.target.answer_raw(fetched("a.orders", (0, 0, 0, b"")))
    world.questions.send_queued_requests(10.0)
    assert len(world.target.raw) == 1
    world.target.answer_raw(fetched("a.orders", (1, 0, 0, b"")))
    assert set(world.answered()) == {0, 1}


def test_whom_the_others_left_nothing_asks_first_the_next_time():
    world = World()
    world.ask(ReadTarget(offset=3), 0, 1, 2)
    told = fetched("a.orders", (0, 0, 0, b"full"), (1, 0, 0, b""), (2, 0, 0, b"more"))
    world.target.answer_raw(told)
    assert [number for number, _ in world.answers] == [1, 0, 2]


def test_a_read_waits_for_a_connection_and_is_told_why_there_is_none():
    world = World()
    world.target.version = None
    world.ask(ReadTarget(offset=3))
    assert (world.answered(), world.target.raw) == ({}, [])
    world.target.unreachable = LOST
    world.questions.send_queued_requests(11.0)
    assert world.answered() == {0: NoResponse(reason=str(LOST))}
    world.questions.send_queued_requests(12.0)
    assert (world.answered(), world.target.raw) == ({}, [])


@pytest.mark.parametrize(
    ("body", "failure", "reason"),
    [
        (None, LOST, str(LOST)),
        (None, None, "no response"),
        (b"\0\0", None, "fetch"),
        (fetched("a.orders", error_code=56), None, "no response"),
    ],
    ids=["lost", "nothing", "nonsense", "refused as a whole"],
)
def test_a_read_that_brings_nothing_is_unanswered_and_the_next_may_go(body, failure, reason):
    world = World()
    world.ask(ReadTarget(offset=3))
    world.target.answer_raw(body, failure=failure)
    answer = world.answered()[0]
    assert answer.reason.startswith("fetch failed: ")
    assert reason in answer.reason
    world.ask(ReadTarget(offset=3))
    assert len(world.target.raw) == 1


def test_a_read_that_is_refused_names_the_logs_start():
    world = World()
    world.ask(ReadSource(offset=3))
    world.source.answer_raw(fetched("orders", (0, 1, 9, b"")))
    assert world.answered() == {
        0: InstructionRefused(code=1, message="orders-0: OFFSET_OUT_OF_RANGE (1)", log_start=9)
    }
    assert world.source.refreshes == 1


def test_where_the_broker_does_not_name_the_mirrors_start_it_is_asked_for():
    world = World()
    world.ask(ReadTarget(offset=3))
    world.target.answer_raw(fetched("a.orders", (0, 1, -1, b"")))
    assert world.answered() == {}
    world.questions.send_queued_requests(10.0)
    ((_, message, _),) = world.target.calls
    assert entity(message, 6).topics[0].partitions[0].timestamp == -2
    world.target.answer(offsets("a.orders", (0, 0, 12)))
    assert world.answered() == {
        0: InstructionRefused(code=1, message="a.orders-0: OFFSET_OUT_OF_RANGE (1)", log_start=12)
    }
