"""First and last steps of every process: fast imports and an immediate exit.

Imported before all other modules, so it uses only the standard library.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import NoReturn

_TEST_PACKAGES = ("hypothesis",)


def prevent_test_imports() -> None:
    """Prevent kio from importing test packages. Call before importing any Kafka library.

    If hypothesis is installed, kio registers its types with it. This costs half a second of CPU per
    process and is useful only in tests.
    """
    for name in _TEST_PACKAGES:
        # None in sys.modules makes `import` fail; a package that is already loaded stays.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def exit_process(code: int) -> NoReturn:
    """Exit immediately after flushing all output.

    A normal interpreter exit would first garbage-collect every object, and the parent process would
    have to wait for this.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
