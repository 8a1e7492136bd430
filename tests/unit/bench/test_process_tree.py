from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.bench import process_tree
from tests.bench.process_tree import ProcessTree
from tests.support import eventually

pytestmark = pytest.mark.judges

# It works 0.2 s, has a child that works as long, waits for it if told to, and says so.
PARENT = """
import subprocess, sys
work = "import sys, time\\nwhile time.process_time() < 0.2: pass\\n"
exec(work)
waiting = work + "print('worked', flush=True)\\nsys.stdin.readline()"
child = subprocess.Popen(
    [sys.executable, "-c", waiting], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
child.stdout.readline()
print(child.pid, flush=True)
if sys.stdin.readline().strip() == "wait":
    child.communicate("end\\n")
    print("waited", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def told(parent: subprocess.Popen[str]) -> str:
    assert parent.stdout is not None
    return parent.stdout.readline().strip()


def tell(parent: subprocess.Popen[str], word: str) -> None:
    assert parent.stdin is not None
    parent.stdin.write(f"{word}\n")
    parent.stdin.flush()


def test_children_count_while_they_run_and_once_they_have_been_waited_for(parent):
    tree = ProcessTree(parent.pid)
    child = int(told(parent))
    running_s = tree.cpu_s()
    assert sorted(tree.pids()) == sorted([parent.pid, child])
    assert running_s >= 0.35  # the kernel counts in ticks, and drops fractions of them
    tell(parent, "wait")
    assert told(parent) == "waited"
    assert tree.pids() == [parent.pid]
    assert running_s <= tree.cpu_s() < running_s + 0.5


def test_an_orphan_stays_in_the_tree(parent):
    tree = ProcessTree(parent.pid)
    child = int(told(parent))
    before_s = tree.cpu_s()
    assert child in tree.pids()
    tell(parent, "leave")
    parent.wait(10)
    # Its standard input has ended with its parent, so it ends, too.
    eventually.eventually(lambda: tree.pids() == [], 10.0)
    assert tree.cpu_s() >= before_s / 2 - 0.05


def test_memory_is_that_of_all_of_them(parent):
    tree = ProcessTree(parent.pid)
    child = int(told(parent))
    alone = ProcessTree(child).pss_bytes()
    assert alone > 1_000_000
    assert tree.pss_bytes() > alone


def test_a_tree_that_is_not_there_is_empty():
    tree = ProcessTree(2**22 + 1)  # beyond what Linux hands out
    assert (tree.cpu_s(), tree.pss_bytes(), tree.pids()) == (0.0, 0, [])


def test_names_with_spaces_and_brackets_do_no_harm():
    words = ["S", "77", *["0"] * 9, "10", "20", "3", "4", *["0"] * 4, "4711", "0", "0"]
    stat = process_tree.parse_stat(5, f"5 (a) (b c)) {' '.join(words)}\n")
    assert (stat.pid, stat.parent, stat.born, stat.ticks) == (5, 77, 4711, 37)


def test_the_machine_is_at_least_as_busy_as_we_are():
    before = process_tree.machine_busy_s(), process_tree.own_cpu_s()
    while process_tree.own_cpu_s() < before[1] + 0.1:
        pass
    assert process_tree.machine_busy_s() - before[0] >= 0.05
