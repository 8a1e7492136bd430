"""First and last step of each of our processes: keep imports fast, and exit at once.

Loaded before anything else, so it imports the standard library only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import NoReturn

_TEST_PACKAGES = ("hypothesis",)


def skip_test_imports() -> None:
    """Before anything of Kafka is imported. kio registers its types with hypothesis wherever that
    is installed: half a second of CPU in every process, of use to tests alone."""
    for name in _TEST_PACKAGES:
        # Python's word for what is not to be found; who has loaded it keeps it.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def exit_process(code: int) -> NoReturn:
    """At once, all output written: Python's own end would collect every object first, and whoever
    stopped us waits meanwhile."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
