from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.app import overview
from mm2.app.reports import flow_report, flow_verdict
from mm2.app.ui import tones
from mm2.connectors import flow_status
from mm2.core import time_to_loss
from mm2.core.copy import standing

State, Tone = flow_report.State, tones.Tone
NOW_MS = 1_700_000_000_000
GOOD = flow_report.Partition(
    topic="orders", partition=0, mirror="m", state="copying", copied_to=9, end=9
)
RUNNING = flow_report.Task(number=0, state="RUNNING")
SHORT = time_to_loss.Outlook(
    kind=time_to_loss.Kind.RUNS_OUT, left_ms=5, by=time_to_loss.By.TIME, share=0.1
)


def partition(**fields):
    return dataclasses.replace(GOOD, **fields)


def flow(*parts, state=State.RUNNING, tasks=(RUNNING,), **fields):
    return flow_report.FlowReport(
        flow="east->west",
        seen_by=("process 1",),
        at_ms=NOW_MS,
        state=state,
        tasks=tasks,
        partitions=parts,
        **fields,
    )


@pytest.mark.parametrize(
    ("fields", "tone"),
    [
        ({}, Tone.GOOD),
        ({"end": 12, "waiting_since_ms": NOW_MS - flow_verdict.LATE_MS + 1}, Tone.GOOD),
        ({"end": 12, "waiting_since_ms": NOW_MS - flow_verdict.LATE_MS}, Tone.WAIT),
        ({"end": None}, Tone.UNKNOWN),
        ({"end": 12, "waiting_since_ms": None}, Tone.UNKNOWN),
        ({"outlook": SHORT}, Tone.BAD),
        ({"state": "stopped"}, Tone.BAD),
        ({"state": "fenced"}, Tone.BAD),
        ({"state": "waiting"}, Tone.WAIT),
        ({"state": "taking"}, Tone.WAIT),
        ({"state": overview.PAUSED}, Tone.WAIT),
        ({"state": "closed"}, Tone.OFF),
        ({"state": ""}, Tone.UNKNOWN),
        ({"state": "", "reason": "its mirror is gone"}, Tone.BAD),
        ({"state": "something new"}, Tone.UNKNOWN),
    ],
)
def test_a_partition_is_well_only_where_all_of_it_is_known(fields, tone):
    assert tones.of_partition(partition(**fields), NOW_MS) is tone


@pytest.mark.parametrize("phase", list(standing.Phase))
def test_every_phase_of_a_copy_has_a_tone(phase):
    moving = phase.value in flow_status.MOVING
    state = flow_report.COPYING if moving else phase.value
    tone = tones.of_partition(partition(state=state), NOW_MS)
    assert (tone is Tone.GOOD) == moving
    assert tone is not Tone.UNKNOWN


@pytest.mark.parametrize("state", list(flow_status.TaskState))
def test_every_state_of_a_task_has_a_tone(state):
    tone = tones.of_task(flow_report.Task(number=0, state=state.value))
    assert (tone is Tone.GOOD) == (state is flow_status.TaskState.RUNNING)
    assert tone is not Tone.UNKNOWN


def test_a_task_of_which_nobody_has_said_anything_is_unknown():
    assert tones.of_task(flow_report.Task(number=0, state="")) is Tone.UNKNOWN


def judged(report):
    return report, flow_verdict.judge(report, within_s=60.0)


@pytest.mark.parametrize(
    ("report", "tone", "words"),
    [
        (flow(GOOD), Tone.GOOD, "running"),
        (
            flow(GOOD, partition(state="stopped"), partition(state="fenced")),
            Tone.BAD,
            "running, 2 halted",
        ),
        (
            flow(GOOD, tasks=(flow_report.Task(number=0, state="FAILED"),)),
            Tone.BAD,
            "running, unhealthy",
        ),
        (flow(GOOD, tasks=(flow_report.Task(number=0, state="STARTING"),)), Tone.WAIT, "running"),
        (flow(GOOD, elsewhere=1), Tone.GOOD, "running here"),
        (flow(elsewhere=1), Tone.OFF, "running elsewhere"),
        (flow(elsewhere=1, state=State.PAUSED), Tone.WAIT, "paused"),
        (flow(), Tone.WAIT, "running, pending"),
        (flow(GOOD, warnings=("something",)), Tone.WAIT, "running"),
        (flow(partition(state="waiting")), Tone.WAIT, "running"),
        (flow(partition(end=12, waiting_since_ms=0)), Tone.WAIT, "running"),
        (flow(partition(state="", end=None)), Tone.UNKNOWN, "running, unknown"),
        (flow(GOOD, state=State.NOT_RUNNING), Tone.BAD, "not running"),
        (flow(GOOD, state=State.STOPPED), Tone.OFF, "stopped"),
        (flow(GOOD, state=State.UNKNOWN), Tone.UNKNOWN, "unknown"),
        (flow(GOOD, state=State.FAILED), Tone.BAD, "failed"),
        (flow(GOOD, state=State.PLANNING), Tone.WAIT, "planning"),
    ],
)
def test_a_flow_has_the_tone_and_the_words_of_its_verdict(report, tone, words):
    assert (tones.of_flow(*judged(report)), tones.in_words(*judged(report))) == (tone, words)


def test_of_nothing_nothing_is_known():
    assert tones.gravest([]) is Tone.UNKNOWN


OFFSETS = st.none() | st.integers(0, 9)
PARTITIONS = st.builds(
    partition,
    state=st.sampled_from(["copying", "waiting", "stopped", overview.PAUSED, "closed", ""]),
    reason=st.sampled_from(["", "why"]),
    copied_to=OFFSETS,
    end=OFFSETS,
    waiting_since_ms=st.none() | st.just(NOW_MS - 5),
    outlook=st.sampled_from([flow_report.NOTHING_KNOWN, SHORT]),
)
TASKS = st.builds(
    flow_report.Task,
    number=st.just(0),
    state=st.sampled_from(["RUNNING", "FAILED", "STARTING", "", "PAUSED"]),
)


@given(
    parts=st.lists(PARTITIONS, max_size=3),
    tasks=st.lists(TASKS, max_size=2),
    state=st.sampled_from(State),
    elsewhere=st.integers(0, 1),
    warnings=st.sampled_from([(), ("something",)]),
)
def test_what_looks_well_is_known_to_be_well(parts, tasks, state, elsewhere, warnings):
    report = flow(*parts, tasks=tuple(tasks), state=state, elsewhere=elsewhere, warnings=warnings)
    if tones.of_flow(*judged(report)) is not Tone.GOOD:
        return
    assert (state, warnings) == (State.RUNNING, ())
    assert tones.in_words(*judged(report)) == ("running here" if elsewhere else "running")
    assert parts, "of what others copy nobody here says that it is well"
    assert {each.state for each in parts} == {"copying"}
    assert {each.state for each in tasks} <= {"RUNNING"}
    lag = flow_report.lag(parts, NOW_MS)
    assert lag.complete
    assert lag.dated
    assert judged(report)[1].is_healthy
