"""Questions of a copy to its worker: who asked is who is answered."""

from __future__ import annotations

import pytest

from mm2.copier import control_channel_messages
from mm2.copier.driver_client import DriverClient
from mm2.replication.recovery_instructions import (
    FlowStateRecord,
    NoResponse,
    RecoveredState,
    ReverseFlowProducers,
)
from tests.fakes import scripts, taking

THEIRS = ReverseFlowProducers(producers=frozenset({4}))


class Copy:
    """A copy's end of its channel, with what was `sent` and what was answered."""

    def __init__(self):
        self.sent = []
        self.answers = []
        self.link = DriverClient(self)

    def send(self, message):
        self.sent.append(message)

    def answered(self, name):
        return lambda answer: self.answers.append((name, answer))

    def told(self):
        found, self.answers[:] = list(self.answers), []
        return found


@pytest.fixture
def copy():
    return Copy()


def test_each_question_has_a_number_and_its_own_answer(copy):
    copy.link.request_recovered_state(taking.where(), 9, on_answer=copy.answered("recovered_state"))
    copy.link.request_acquisition_permission(on_answer=copy.answered("may take"))
    copy.link.request_reverse_flow_producers([4, 5], on_answer=copy.answered("reverse_producers"))
    assert [each["id"] for each in copy.sent] == [1, 2, 3]
    assert copy.sent[2] == control_channel_messages.encode_reverse_flow_producers_request(3, [4, 5])
    for message in (
        control_channel_messages.encode_reverse_flow_producers(3, {4}),
        {"type": "acquisition_granted", "id": 2},
        control_channel_messages.encode_recovered_state(1, RecoveredState()),
    ):
        assert copy.link.handle_message(message)
    assert copy.told() == [
        ("reverse_producers", THEIRS),
        ("may take", scripts.DONE),
        ("recovered_state", RecoveredState()),
    ]


def test_what_nobody_can_say_is_an_answer_too(copy):
    copy.link.request_reverse_flow_producers([4], on_answer=copy.answered("reverse_producers"))
    copy.link.handle_message(
        control_channel_messages.encode_reverse_flow_producers(
            1, None, failure="the source is away"
        )
    )
    assert copy.told() == [("reverse_producers", NoResponse(reason="the source is away"))]


def test_an_answer_that_nobody_waits_for_is_dropped(copy):
    copy.link.request_reverse_flow_producers([4], on_answer=copy.answered("reverse_producers"))
    for number in (7, 1, 1):
        assert copy.link.handle_message(
            control_channel_messages.encode_reverse_flow_producers(number, {4})
        )
    assert copy.link.handle_message({"type": "acquisition_granted", "id": 1})
    assert copy.told() == [("reverse_producers", THEIRS)]


def test_other_messages_are_not_for_it(copy):
    assert not copy.link.handle_message({"type": "pause"})


def test_items_are_stored_in_order_and_told_when_all_of_them_are(copy):
    item = FlowStateRecord(key=b"k", value=b"v")
    copy.link.append_to_flow_state([item, item], on_stored=copy.answered("two"))
    copy.link.append_to_flow_state([item], on_stored=copy.answered("one"))
    copy.link.handle_message({"type": "recorded", "through": 1})
    assert copy.told() == []
    copy.link.handle_message({"type": "recorded", "through": 3})
    assert copy.told() == [("two", scripts.DONE), ("one", scripts.DONE)]
    assert [each["first"] for each in copy.sent] == [1, 3]
