from __future__ import annotations

import subprocess
import sys

import pytest

ENDS = """
import atexit, sys, threading
from connect_runtime.system import process_end

atexit.register(print, "collected")
threading.Thread(target=threading.Event().wait).start()
sys.stdout.write("all")
{before}
process_end.end(3)
"""


@pytest.mark.parametrize("before", ["", "sys.stderr.close()", "sys.stderr = None"])
def test_the_end_is_at_once_and_nothing_is_lost(before):
    ended = subprocess.run(
        [sys.executable, "-c", ENDS.format(before=before)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "all", "")
