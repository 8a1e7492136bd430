"""Records reach the leader in order; what it refuses, loses or garbles is reported once."""

from __future__ import annotations

import threading

import pytest
from kio.schema.errors import ErrorCode

from connect_runtime.base.errors import RetriableError
from connect_runtime.kafka.client_errors import NotAuthorizedError, TopicMissingError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from mm2.formats import record_batch, record_codec
from mm2.kafka import single_partition_producer
from mm2.kafka.single_partition_producer import KafkaRecordWriter
from tests.support import eventually, scripted_broker
from tests.support.scripted_broker import ScriptedBroker

WAIT_S = 20.0


class Leader:
    """Answers Produce requests with these codes, one a request, and then stores them. A code of
    None: it hangs up; bytes: the response's body."""

    def __init__(self, broker):
        self.codes = []
        self.stored = []
        self.requests = 0
        broker.scripts["produce"] = self

    def __call__(self, asked):
        self.requests += 1
        code = self.codes.pop(0) if self.codes else 0
        if code is None:
            asked.link.close()
            return
        if isinstance(code, bytes):
            asked.answer(code)
            return
        (topic,) = asked.entity.topic_data
        (data,) = topic.partition_data
        if not code:
            self.stored += decode(data.records)
        m = asked.module
        partition = m.PartitionProduceResponse(
            index=data.index,
            error_code=ErrorCode(code),
            base_offset=0,
            log_append_time=None,
            record_errors=(),
            error_message="says the leader" if code else None,
        )
        asked.answer(
            asked.response(
                throttle_time=scripted_broker.NO_TIME,
                responses=(
                    m.TopicProduceResponse(name=topic.name, partition_responses=(partition,)),
                ),
            )
        )


def decode(batch):
    view = memoryview(batch)
    header = record_batch.read_batch_header(view)
    assert record_batch.has_valid_crc(view, header)
    return [
        record_codec.decode_record_body(each.body).key
        for each in record_codec.decode_batch(header, view)
    ]


@pytest.fixture
def broker():
    loop = Poller()
    made = ScriptedBroker(loop)

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            loop.poll(0.01)

    running = ThreadGroup(on_unexpected_end=lambda _: None)
    running.start("broker", run)
    yield made
    assert running.stop_all(5.0) == []
    made.close()
    loop.close()


@pytest.fixture
def leader(broker):
    broker.topics["syncs"] = (broker.node_id,)
    return Leader(broker)


@pytest.fixture
def writer(broker):
    access = KafkaClusterAccess(
        name="east",
        bootstrap=(broker.address,),
        properties={"retry.backoff.ms": "5", "reconnect.backoff.ms": "5"},
    )
    made = KafkaRecordWriter(access, client_id="me", topic="syncs", clock=SystemClock())
    yield made
    made.close(0.0)


def write(writer, count):
    answers: list[object] = []
    for number in range(count):
        writer.write(b"%d" % number, b"v", on_written=answers.append)
    return answers


def await_answers(writer, answers, count):
    def answered():
        writer.poll(0.05)
        return len(answers) >= count

    eventually.eventually(answered, WAIT_S)
    assert len(answers) == count


def test_records_share_a_batch_and_keep_their_order(leader, writer):
    answers = write(writer, 300)
    await_answers(writer, answers, 300)
    assert answers == [None] * 300
    assert leader.stored == [b"%d" % number for number in range(300)]
    assert leader.requests == 1


@pytest.mark.parametrize(
    "code",
    [6, 3, 19, None, b"", b"\xff" * 30],
    ids=["not leader", "unknown topic", "few replicas", "lost", "empty", "malformed"],
)
def test_what_may_pass_is_tried_again(leader, writer, code):
    leader.codes = [code, code]
    answers = write(writer, 3)
    await_answers(writer, answers, 3)
    assert answers == [None] * 3
    assert leader.stored == [b"0", b"1", b"2"]
    assert leader.requests == 3


def test_a_refusal_is_told_at_once_with_the_brokers_words(leader, writer):
    leader.codes = [29]
    answers = write(writer, 2)
    await_answers(writer, answers, 2)
    assert {type(each) for each in answers} == {NotAuthorizedError}
    for part in ("writing syncs on east", "says the leader"):
        assert part in str(answers[0])
    answers = write(writer, 1)
    await_answers(writer, answers, 1)
    assert answers == [None]


def test_a_topic_that_may_not_be_described_is_told_at_once(broker, leader, writer):
    broker.topic_codes = {"syncs": 29}
    answers = write(writer, 2)
    await_answers(writer, answers, 2)
    assert {type(each) for each in answers} == {NotAuthorizedError}
    assert leader.requests == 0


def test_a_topic_that_stays_missing_is_told_as_such(broker, leader, writer, monkeypatch):
    monkeypatch.setattr(single_partition_producer, "_RECORD_TIMEOUT_S", 0.5)
    del broker.topics["syncs"]
    answers = write(writer, 1)
    await_answers(writer, answers, 1)
    assert type(answers[0]) is TopicMissingError


def test_records_written_while_closing_are_answered(leader, writer):
    answers: list[object] = []
    writer.write(
        b"a", b"v", on_written=lambda _: writer.write(b"b", b"v", on_written=answers.append)
    )
    writer.close(0.0)
    (answer,) = answers
    assert "the writer is closing" in str(answer)


def test_what_is_not_stored_in_time_is_given_up(leader, writer, monkeypatch):
    monkeypatch.setattr(single_partition_producer, "_RECORD_TIMEOUT_S", 0.3)
    leader.codes = [6] * 1000
    answers = write(writer, 2)
    await_answers(writer, answers, 2)
    assert {type(each) for each in answers} == {RetriableError}
    assert "says the leader" in str(answers[0])
    assert leader.stored == []


def test_more_than_fits_is_refused_but_told_in_poll(leader, writer, monkeypatch):
    monkeypatch.setattr(single_partition_producer, "_MAX_QUEUED_RECORDS", 2)
    answers = write(writer, 3)
    assert answers == []
    await_answers(writer, answers, 3)
    assert answers.count(None) == 2
    assert any("the send buffer is full" in str(each) for each in answers)


def test_a_record_in_flight_is_answered_once_when_the_writer_closes(leader, writer):
    leader.codes = [b""] * 1000
    answers = write(writer, 1)
    writer.poll(0.2)
    writer.close(0.0)
    (answer,) = answers
    assert "closed before" in str(answer)
