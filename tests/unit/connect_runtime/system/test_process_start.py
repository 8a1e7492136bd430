from __future__ import annotations

import subprocess
import sys

import pytest

_LOADED = "print('kio.static.primitive' in sys.modules, 'hypothesis.strategies' in sys.modules)"


@pytest.mark.parametrize(("begin", "seen"), [("process_start.begin()", "True False"), ("", None)])
def test_what_is_for_tests_is_not_loaded_with_kio(begin: str, seen: str | None):
    code = f"import sys\nfrom connect_runtime.system import process_start\n{begin}\n"
    code += f"import kio.static.primitive\n{_LOADED}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    # Without it, it is: the day that kio leaves this be, the workaround may go.
    assert done.stdout.strip() == (seen or "True True")


def test_who_has_it_keeps_it():
    code = (
        "import hypothesis.strategies, sys\n"
        "from connect_runtime.system import process_start\n"
        "process_start.begin()\n"
        "import hypothesis\n"
        "print(hypothesis.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "hypothesis"
