from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.core.state import cluster_config, status_records
from connect_runtime.core.task import connector_lifecycle as cl
from tests.support import examples

Target = cluster_config.TargetState
State = status_records.State
OK, OUCH = cl.Called(), cl.Called("ouch")
UNASSIGNED = cl.Say(state=State.UNASSIGNED, safe=True)
FAILED = cl.Say(state=State.FAILED, trace="ouch", safe=True)


def wish(state, token=1):
    return cl.Wished(state=state, token=token)


def told(state, token=1, error=None):
    return cl.Tell(token=token, state=state, error=error)


def run(*events):
    connector = cl.ConnectorLifecycle()
    return [connector.step(each) for each in events], connector


def test_a_connector_is_initialised_started_and_shut_down():
    said, connector = run(cl.Begun(), OK, wish(Target.STARTED), OK)
    assert said == [
        [cl.Initialise()],
        [],
        [cl.Start()],
        [cl.Say(state=State.RUNNING), told(Target.STARTED)],
    ]
    assert connector.running
    assert connector.step(cl.ShutdownAsked()) == [cl.Stop()]
    assert not connector.running
    assert connector.step(OK) == [UNASSIGNED, cl.Close()]
    assert connector.phase is cl.Phase.ENDED


@pytest.mark.parametrize(
    ("state", "status"), [(Target.PAUSED, State.PAUSED), (Target.STOPPED, State.STOPPED)]
)
def test_a_connector_that_is_not_to_run_is_never_started(state, status):
    said, _ = run(cl.Begun(), wish(state), OK)
    assert said[1:] == [[], [cl.Say(state=status), told(state)]]


@pytest.mark.parametrize("state", [Target.PAUSED, Target.STOPPED])
def test_a_running_one_is_stopped_and_started_again(state):
    said, _ = run(
        cl.Begun(), OK, wish(Target.STARTED), OK, wish(state, 2), OK, wish(Target.STARTED, 3), OK
    )
    assert said[4] == [cl.Stop()]
    assert said[5][-1] == told(state, 2)
    assert said[6:] == [[cl.Start()], [cl.Say(state=State.RUNNING), told(Target.STARTED, 3)]]


def test_from_paused_to_stopped_nothing_is_called():
    said, _ = run(cl.Begun(), OK, wish(Target.PAUSED), wish(Target.STOPPED, 2))
    assert said[3] == [cl.Say(state=State.STOPPED), told(Target.STOPPED, 2)]


def test_what_is_so_already_is_told_at_once():
    said, _ = run(cl.Begun(), OK, wish(Target.PAUSED), wish(Target.PAUSED, 2))
    assert said[3] == [told(Target.PAUSED, 2)]


def test_only_the_last_wish_is_kept():
    said, _ = run(cl.Begun(), wish(Target.STARTED, 1), wish(Target.PAUSED, 2), OK)
    assert said[2] == [told(Target.STARTED, 1, "overtaken by the wish for PAUSED")]
    assert said[3] == [cl.Say(state=State.PAUSED), told(Target.PAUSED, 2)]


def test_what_throws_in_the_beginning_fails_it_and_later_wishes_with_it():
    said, connector = run(cl.Begun(), wish(Target.STARTED), OUCH)
    assert said[2] == [FAILED, told(Target.STARTED, 1, "the connector has failed")]
    assert connector.step(wish(Target.PAUSED, 2)) == [
        told(Target.PAUSED, 2, "the connector has failed")
    ]
    assert connector.step(wish(Target.STOPPED, 3)) == [
        cl.Say(state=State.STOPPED),
        told(Target.STOPPED, 3),
    ]
    assert connector.step(wish(Target.STARTED, 4)) == [cl.Start()]


def test_what_throws_while_starting_or_pausing_fails_it():
    said, _ = run(cl.Begun(), OK, wish(Target.STARTED), OUCH)
    assert said[3] == [FAILED, told(Target.STARTED, 1, "ouch")]
    said, _ = run(cl.Begun(), OK, wish(Target.STARTED), OK, wish(Target.PAUSED, 2), OUCH)
    assert said[5] == [FAILED, told(Target.PAUSED, 2, "ouch")]


def test_it_counts_as_stopped_even_if_stopping_threw():
    said, _ = run(cl.Begun(), OK, wish(Target.STARTED), OK, wish(Target.STOPPED, 2), OUCH)
    assert said[5] == [cl.Say(state=State.STOPPED), told(Target.STOPPED, 2)]


def test_its_own_failure_is_told_once_and_it_is_left_alone():
    said, connector = run(
        cl.Begun(), OK, wish(Target.STARTED), OK, cl.Raised("ouch"), cl.Raised("again")
    )
    assert said[4:] == [[FAILED], []]
    assert not connector.running
    assert connector.step(cl.ShutdownAsked()) == [cl.Stop()]
    assert connector.step(OK) == [UNASSIGNED, cl.Close()]


def test_a_failed_one_that_was_started_is_stopped_before_it_counts_as_stopped():
    said, _ = run(
        cl.Begun(), OK, wish(Target.STARTED), OK, cl.Raised("ouch"), wish(Target.STOPPED, 2), OK
    )
    assert said[5:] == [[cl.Stop()], [cl.Say(state=State.STOPPED), told(Target.STOPPED, 2)]]


def test_a_failure_of_its_own_while_it_is_started_stands():
    said, _ = run(cl.Begun(), OK, wish(Target.STARTED), cl.Raised("ouch"), OK)
    assert said[3] == [FAILED]
    assert said[4] == [told(Target.STARTED, 1, "the connector has failed")]


def test_who_waits_when_it_is_shut_down_is_told():
    said, connector = run(cl.Begun(), wish(Target.STARTED), cl.ShutdownAsked(), OK)
    assert said[3] == [
        told(Target.STARTED, 1, "the connector is being shut down"),
        UNASSIGNED,
        cl.Close(),
    ]
    assert connector.step(wish(Target.STARTED, 2)) == [
        told(Target.STARTED, 2, "the connector is being shut down")
    ]


def test_what_throws_while_it_is_shut_down_fails_it():
    said, _ = run(cl.Begun(), OK, wish(Target.STARTED), OK, cl.ShutdownAsked(), OUCH)
    assert said[5] == [FAILED, cl.Close()]


def test_one_that_was_given_up_on_is_unassigned_and_says_nothing_more():
    said, _ = run(cl.Begun(), OK, wish(Target.STARTED), OK, cl.ShutdownAsked(), cl.GivenUp(), OUCH)
    assert said[5:] == [[UNASSIGNED], [cl.Close()]]


EVENTS = st.lists(
    st.sampled_from(list(Target)) | st.sampled_from(["ok", "ouch", "raise"]), max_size=20
)


@settings(max_examples=examples.of(100))
@given(EVENTS)
def test_every_wish_is_told_of_exactly_once(steps):
    connector, calls, said, wishes = cl.ConnectorLifecycle(), 0, [], 0

    def tell(event):
        nonlocal calls
        new = connector.step(event)
        calls += sum(isinstance(each, cl.Initialise | cl.Start | cl.Stop) for each in new)
        assert calls <= 1
        said.extend(new)

    tell(cl.Begun())
    for step in [*steps, "shutdown", "ok", "ok"]:
        if isinstance(step, Target):
            wishes += 1
            tell(wish(step, wishes))
        elif step == "raise":
            tell(cl.Raised("ouch"))
        elif step == "shutdown":
            tell(cl.ShutdownAsked())
        elif calls:
            calls = 0
            tell(OK if step == "ok" else OUCH)
    tokens = [each.token for each in said if isinstance(each, cl.Tell)]
    assert sorted(tokens) == list(range(1, wishes + 1))
    assert said[-1] == cl.Close()
    assert connector.phase is cl.Phase.ENDED
