from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent import futures
from pathlib import Path

import pytest

from connect_runtime.system import child_processes, system_clock
from connect_runtime.system.child_processes import ProcessStartError

ROOT = Path(__file__).parents[4]


def _gone(pid: int) -> bool:
    return system_clock.wait_until(lambda: not child_processes.is_process_alive(pid), timeout_s=5)


def test_output_and_status_of_the_child_come_back(tmp_path):
    with (tmp_path / "out").open("wb") as out:
        child = child_processes.start_process(
            ["sh", "-c", 'echo "$WORD" in $(pwd); echo two >&2; exit 7'],
            output=out,
            env={**os.environ, "WORD": "one"},
            cwd=tmp_path,
        )

    assert child.wait(5) == 7
    assert child.poll() == 7
    assert (tmp_path / "out").read_text() == f"one in {tmp_path}\ntwo\n"


def test_complaints_go_where_they_are_wanted(tmp_path):
    output, complaints = tmp_path / "out", tmp_path / "err"
    script = "import sys; print('found'); print('hm', file=sys.stderr)"
    with output.open("wb") as out, complaints.open("wb") as errors:
        child = child_processes.start_process(
            [sys.executable, "-c", script], output=out, stderr=errors
        )
        assert child.wait(30.0) == 0
    assert (output.read_text(), complaints.read_text()) == ("found\n", "hm\n")


def test_the_process_id_is_the_childs_own():
    child = child_processes.start_process(["sleep", "60"])

    assert child.poll() is None
    assert Path(f"/proc/{child.pid}/comm").read_text() == "sleep\n"
    assert child.wait(0.01) is None
    assert child.kill() == 128 + signal.SIGKILL
    assert _gone(child.pid)


def test_signals_reach_the_child_and_an_ended_one_is_left_in_peace():
    child = child_processes.start_process(["sleep", "60"])

    child.send_signal(signal.SIGTERM)

    assert child.wait(5) == 128 + signal.SIGTERM
    child.send_signal(signal.SIGTERM)
    assert child.kill() == 128 + signal.SIGTERM


def test_who_is_stopped_stands_still_with_all_its_threads():
    busy = (
        "import hashlib, threading, sys\n"
        "def work():\n"
        "    while True: hashlib.sha256(bytes(1 << 22)).digest()\n"
        "for _ in range(8): threading.Thread(target=work, daemon=True).start()\n"
        "print('busy', flush=True); threading.Event().wait()\n"
    )
    child = child_processes.start_process([sys.executable, "-c", busy])
    try:
        tasks = Path(f"/proc/{child.pid}/task")
        assert system_clock.wait_until(lambda: len(list(tasks.iterdir())) > 8, timeout_s=10)
        for _ in range(20):
            child.send_signal(signal.SIGSTOP)
            states = {(each / "stat").read_text().rpartition(")")[2][1] for each in tasks.iterdir()}
            assert states == {"T"}
            child.send_signal(signal.SIGCONT)
    finally:
        child.kill()


def test_a_program_that_does_not_exist_is_named():
    with pytest.raises(ProcessStartError, match=r"/no/such/program: No such file"):
        child_processes.start_process(["/no/such/program"])


def test_no_descriptor_is_left_over():
    before = len(os.listdir("/proc/self/fd"))

    child_processes.start_process(["true"]).wait(5)
    with pytest.raises(ProcessStartError):
        child_processes.start_process(["/no/such/program"])

    assert len(os.listdir("/proc/self/fd")) == before


def test_a_child_outlives_the_thread_that_started_it():
    with futures.ThreadPoolExecutor() as pool:
        child = pool.submit(child_processes.start_process, ["sleep", "60"]).result(5)

    assert child.wait(0.3) is None
    child.kill()


_PARENT = """
import os, signal, sys, threading
from connect_runtime.system import child_processes
child = child_processes.start_process(["sleep", "60"])
if "forked" in sys.argv:  # a fork that never execs holds a copy of every descriptor
    forked = os.fork()
    if forked == 0:
        signal.pause()
    print(forked, end=" ")
if "stopped" in sys.argv:
    child.send_signal(signal.SIGSTOP)
print(child.pid, flush=True)
signal.pause()
"""


def _parent_of_a_child(*words: str) -> tuple[subprocess.Popen[str], list[int]]:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    return parent, [int(word) for word in parent.stdout.readline().split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("state", ["running", "stopped", "forked"])
def test_the_child_dies_with_its_parent(number, state):
    parent, pids = _parent_of_a_child(state)
    try:
        assert child_processes.is_process_alive(pids[-1])
        parent.send_signal(number)
        assert _gone(pids[-1])
    finally:
        for pid in pids[:-1]:
            os.kill(pid, signal.SIGKILL)
        parent.kill()
        parent.communicate()


def test_the_child_dies_with_its_guard():
    child = child_processes.start_process(["sleep", "60"])
    guard = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1])

    os.kill(guard, signal.SIGKILL)

    assert _gone(child.pid)
    assert child.wait(5) is not None


def test_a_zombie_is_not_alive():
    with subprocess.Popen(["true"]) as ended:
        assert system_clock.wait_until(
            lambda: not child_processes.is_process_alive(ended.pid), timeout_s=5
        )
    assert not child_processes.is_process_alive(ended.pid)
    assert child_processes.is_process_alive(os.getpid())
