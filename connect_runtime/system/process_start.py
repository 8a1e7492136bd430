"""The start of a process of ours."""

from __future__ import annotations

import sys

_TEST_TOOLS = ("hypothesis",)


def begin() -> None:
    """Before anything of Kafka is imported. kio registers its types with hypothesis wherever that
    is installed: half a second of CPU in every process, of use to tests alone."""
    for name in _TEST_TOOLS:
        # Python's word for what is not to be found; who has loaded it keeps it.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
