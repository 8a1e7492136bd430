"""First and last step of every process: keep imports fast, and exit immediately.

Imported before everything else, so it uses the standard library only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import NoReturn

_TEST_PACKAGES = ("hypothesis",)


def skip_test_imports() -> None:
    """Prevent imports of test packages. Call before importing any Kafka library.

    kio registers its types with hypothesis if that is installed, which costs half a second of CPU
    per process and is useful in tests only.
    """
    for name in _TEST_PACKAGES:
        # None in sys.modules makes `import` fail; a package that is already loaded stays.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]


def exit_process(code: int) -> NoReturn:
    """Exit immediately after flushing all output.

    A normal interpreter exit would first collect every object, while the caller waits.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
