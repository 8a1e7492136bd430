"""Two owners of one flow: a second `mm2 run`, and copies that outlive their own.

Runs of one flow share it. Whoever took a partition last owns it; what the other one still sends is
refused. Nothing is lost and nothing doubled whatever the order.
"""

from __future__ import annotations

import os
import signal

import pytest

from connect_runtime.system import child_processes
from tests.chaos import storm
from tests.chaos.faults import mirror_processes
from tests.chaos.storm import Storm
from tests.support import eventually, mirror
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.chaos, pytest.mark.full]


@pytest.mark.timeout(900)
def test_two_runs_of_a_flow_share_it(tmp_path, two_clusters, seed):
    """Which of the two ends changes nothing for the other one."""
    with Storm(tmp_path, two_clusters, seed=seed) as weather:
        weather.move_on()
        first, second = weather.run, weather.start()
        await_both(first, second)
        first.kill()
        weather.move_on()
        third = weather.start()
        await_both(second, third)
        assert second.stop(storm.ENDS_S) == 143, second.tail
        weather.move_on()
        assert "is halted" not in second.log + third.log
        weather.settle_and_judge()


def await_both(*runs: Mirror) -> None:
    """Each of them copies, from now on."""
    for run in runs:
        run.await_records(max(0.0, run.records()) + storm.MOVES_ON_RECORDS / 2, storm.RECOVERS_S)


@pytest.mark.timeout(900)
def test_frozen_copies_wake_up_when_another_run_has_taken_over(tmp_path, two_clusters, seed):
    """They were frozen with batches in hand; awake again they send them, and are refused."""
    with Storm(tmp_path, two_clusters, seed=seed) as weather:
        weather.move_on()
        others, copies = orphan(weather)
        weather.start()
        weather.move_on()
        assert all(map(child_processes.is_process_alive, copies))
        mirror.send(signal.SIGCONT, copies)
        weather.move_on()
        mirror.send(signal.SIGCONT, others)
        mirror_processes.await_family_gone([*copies, *others], 60.0)
        weather.settle_and_judge()


def orphan(weather: Storm) -> tuple[list[int], list[int]]:
    """Freeze all of Spark and kill the run it belongs to: (Spark's other processes, copies)."""
    jvm = mirror.driver_jvm(weather.run.pid)
    assert jvm is not None
    copies = mirror.copy_processes(weather.run.pid)
    assert len(copies) == 3
    # The daemon would take its copies along when it hears of the end; and were the JVM gone, the
    # kernel would wake them with a SIGHUP: a process group that is left alone is not left frozen.
    others = [*mirror.python_daemons(weather.run.pid), jvm]
    mirror.send(signal.SIGSTOP, [*others, *copies])
    os.kill(weather.run.pid, signal.SIGKILL)
    assert weather.run.wait(30.0) != 0
    return others, copies


@pytest.mark.timeout(900)
def test_copies_go_on_beside_another_run_while_their_own_is_frozen(tmp_path, two_clusters, seed):
    """Until they have heard nothing from it for ten seconds, or are fenced."""
    with Storm(tmp_path, two_clusters, seed=seed) as weather:
        weather.move_on()
        old = weather.run
        copies = mirror.copy_processes(old.pid)
        assert len(copies) == 3
        old.signal(signal.SIGSTOP)
        weather.start()
        weather.move_on()
        eventually.eventually(
            lambda: not any(mirror.tcp_connections(pid) for pid in copies),
            60.0,
            "copies leave when their worker is silent",
        )
        old.signal(signal.SIGCONT)
        # Awake again it hears that it is no member any more, and joins anew.
        await_both(old, weather.run)
        weather.settle_and_judge()
