from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState
from connect_runtime.worker.connector_state_machine import (
    CallConnectorInitialize,
    CallConnectorStart,
    CallConnectorStop,
    CloseConnector,
    CompleteTargetStateRequest,
    ConnectorAbandoned,
    ConnectorCallReturned,
    ConnectorFailed,
    ConnectorLifecycle,
    ConnectorPhase,
    ConnectorShutdownRequested,
    ConnectorThreadStarted,
    PublishConnectorStatus,
    TargetStateRequested,
)
from tests.support import examples

Target = TargetState
State = RunState
OK, OUCH = ConnectorCallReturned(), ConnectorCallReturned("ouch")
UNASSIGNED = PublishConnectorStatus(state=State.UNASSIGNED, safe=True)
FAILED = PublishConnectorStatus(state=State.FAILED, trace="ouch", safe=True)


def wish(state, token=1):
    return TargetStateRequested(state=state, token=token)


def told(state, token=1, error=None):
    return CompleteTargetStateRequest(token=token, state=state, error=error)


def run(*events):
    connector = ConnectorLifecycle()
    return [connector.process_event(each) for each in events], connector


def test_a_connector_is_initialised_started_and_shut_down():
    said, connector = run(ConnectorThreadStarted(), OK, wish(Target.STARTED), OK)
    assert said == [
        [CallConnectorInitialize()],
        [],
        [CallConnectorStart()],
        [PublishConnectorStatus(state=State.RUNNING), told(Target.STARTED)],
    ]
    assert connector.is_running
    assert connector.process_event(ConnectorShutdownRequested()) == [CallConnectorStop()]
    assert not connector.is_running
    assert connector.process_event(OK) == [UNASSIGNED, CloseConnector()]
    assert connector.phase is ConnectorPhase.ENDED


@pytest.mark.parametrize(
    ("state", "status"), [(Target.PAUSED, State.PAUSED), (Target.STOPPED, State.STOPPED)]
)
def test_a_connector_that_is_not_to_run_is_never_started(state, status):
    said, _ = run(ConnectorThreadStarted(), wish(state), OK)
    assert said[1:] == [[], [PublishConnectorStatus(state=status), told(state)]]


@pytest.mark.parametrize("state", [Target.PAUSED, Target.STOPPED])
def test_a_running_one_is_stopped_and_started_again(state):
    said, _ = run(
        ConnectorThreadStarted(),
        OK,
        wish(Target.STARTED),
        OK,
        wish(state, 2),
        OK,
        wish(Target.STARTED, 3),
        OK,
    )
    assert said[4] == [CallConnectorStop()]
    assert said[5][-1] == told(state, 2)
    assert said[6:] == [
        [CallConnectorStart()],
        [PublishConnectorStatus(state=State.RUNNING), told(Target.STARTED, 3)],
    ]


def test_from_paused_to_stopped_nothing_is_called():
    said, _ = run(ConnectorThreadStarted(), OK, wish(Target.PAUSED), wish(Target.STOPPED, 2))
    assert said[3] == [PublishConnectorStatus(state=State.STOPPED), told(Target.STOPPED, 2)]


def test_what_is_so_already_is_told_at_once():
    said, _ = run(ConnectorThreadStarted(), OK, wish(Target.PAUSED), wish(Target.PAUSED, 2))
    assert said[3] == [told(Target.PAUSED, 2)]


def test_only_the_last_wish_is_kept():
    said, _ = run(ConnectorThreadStarted(), wish(Target.STARTED, 1), wish(Target.PAUSED, 2), OK)
    assert said[2] == [told(Target.STARTED, 1, "superseded by a request for PAUSED")]
    assert said[3] == [PublishConnectorStatus(state=State.PAUSED), told(Target.PAUSED, 2)]


def test_what_throws_in_the_beginning_fails_it_and_later_wishes_with_it():
    said, connector = run(ConnectorThreadStarted(), wish(Target.STARTED), OUCH)
    assert said[2] == [FAILED, told(Target.STARTED, 1, "the connector has failed")]
    assert connector.process_event(wish(Target.PAUSED, 2)) == [
        told(Target.PAUSED, 2, "the connector has failed")
    ]
    assert connector.process_event(wish(Target.STOPPED, 3)) == [
        PublishConnectorStatus(state=State.STOPPED),
        told(Target.STOPPED, 3),
    ]
    assert connector.process_event(wish(Target.STARTED, 4)) == [CallConnectorStart()]


def test_what_throws_while_starting_or_pausing_fails_it():
    said, _ = run(ConnectorThreadStarted(), OK, wish(Target.STARTED), OUCH)
    assert said[3] == [FAILED, told(Target.STARTED, 1, "ouch")]
    said, _ = run(
        ConnectorThreadStarted(), OK, wish(Target.STARTED), OK, wish(Target.PAUSED, 2), OUCH
    )
    assert said[5] == [FAILED, told(Target.PAUSED, 2, "ouch")]


def test_it_counts_as_stopped_even_if_stopping_threw():
    said, _ = run(
        ConnectorThreadStarted(), OK, wish(Target.STARTED), OK, wish(Target.STOPPED, 2), OUCH
    )
    assert said[5] == [PublishConnectorStatus(state=State.STOPPED), told(Target.STOPPED, 2)]


def test_its_own_failure_is_told_once_and_it_is_left_alone():
    said, connector = run(
        ConnectorThreadStarted(),
        OK,
        wish(Target.STARTED),
        OK,
        ConnectorFailed("ouch"),
        ConnectorFailed("again"),
    )
    assert said[4:] == [[FAILED], []]
    assert not connector.is_running
    assert connector.process_event(ConnectorShutdownRequested()) == [CallConnectorStop()]
    assert connector.process_event(OK) == [UNASSIGNED, CloseConnector()]


def test_a_failed_one_that_was_started_is_stopped_before_it_counts_as_stopped():
    said, _ = run(
        ConnectorThreadStarted(),
        OK,
        wish(Target.STARTED),
        OK,
        ConnectorFailed("ouch"),
        wish(Target.STOPPED, 2),
        OK,
    )
    assert said[5:] == [
        [CallConnectorStop()],
        [PublishConnectorStatus(state=State.STOPPED), told(Target.STOPPED, 2)],
    ]


def test_a_failure_of_its_own_while_it_is_started_stands():
    said, _ = run(ConnectorThreadStarted(), OK, wish(Target.STARTED), ConnectorFailed("ouch"), OK)
    assert said[3] == [FAILED]
    assert said[4] == [told(Target.STARTED, 1, "the connector has failed")]


def test_who_waits_when_it_is_shut_down_is_told():
    said, connector = run(
        ConnectorThreadStarted(), wish(Target.STARTED), ConnectorShutdownRequested(), OK
    )
    assert said[3] == [
        told(Target.STARTED, 1, "the connector is shutting down"),
        UNASSIGNED,
        CloseConnector(),
    ]
    assert connector.process_event(wish(Target.STARTED, 2)) == [
        told(Target.STARTED, 2, "the connector is shutting down")
    ]


def test_what_throws_while_it_is_shut_down_fails_it():
    said, _ = run(
        ConnectorThreadStarted(), OK, wish(Target.STARTED), OK, ConnectorShutdownRequested(), OUCH
    )
    assert said[5] == [FAILED, CloseConnector()]


def test_one_that_was_given_up_on_is_unassigned_and_says_nothing_more():
    said, _ = run(
        ConnectorThreadStarted(),
        OK,
        wish(Target.STARTED),
        OK,
        ConnectorShutdownRequested(),
        ConnectorAbandoned(),
        OUCH,
    )
    assert said[5:] == [[UNASSIGNED], [CloseConnector()]]


EVENTS = st.lists(
    st.sampled_from(list(Target)) | st.sampled_from(["ok", "ouch", "raise"]), max_size=20
)


@settings(max_examples=examples.of(100))
@given(EVENTS)
def test_every_wish_is_told_of_exactly_once(steps):
    connector, calls, said, wishes = ConnectorLifecycle(), 0, [], 0

    def tell(event):
        nonlocal calls
        new = connector.process_event(event)
        calls += sum(
            isinstance(each, CallConnectorInitialize | CallConnectorStart | CallConnectorStop)
            for each in new
        )
        assert calls <= 1
        said.extend(new)

    tell(ConnectorThreadStarted())
    for step in [*steps, "shutdown", "ok", "ok"]:
        if isinstance(step, Target):
            wishes += 1
            tell(wish(step, wishes))
        elif step == "raise":
            tell(ConnectorFailed("ouch"))
        elif step == "shutdown":
            tell(ConnectorShutdownRequested())
        elif calls:
            calls = 0
            tell(OK if step == "ok" else OUCH)
    tokens = [each.token for each in said if isinstance(each, CompleteTargetStateRequest)]
    assert sorted(tokens) == list(range(1, wishes + 1))
    assert said[-1] == CloseConnector()
    assert connector.phase is ConnectorPhase.ENDED
