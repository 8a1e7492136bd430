"""How many copies can run at once: asked of the master string, or of the executors that we have."""

from __future__ import annotations

import os
import re
from typing import Any

_LOCAL = re.compile(r"local(?:\[(?P<threads>\d+|\*)(?:,\s*\d+)?\])?$")


def of_local_master(master: str) -> int:
    """`local` has one slot, `local[N]` N, `local[*]` one for each processor."""
    found = _LOCAL.match(master)
    assert found is not None, f"not a local master: {master}"
    threads = found["threads"]
    if threads is None:
        return 1
    return (os.cpu_count() or 1) if threads == "*" else int(threads)


def of_executors(context: Any) -> int:
    """Slots of the executors that run now, the driver's own (which runs nothing) left out.

    The status store is what Spark's REST API reads; it is there whether or not the UI is on.
    """
    executors = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001 - see above
    summaries = (executors.apply(index) for index in range(executors.size()))
    return sum(int(each.maxTasks()) for each in summaries if each.id() != "driver")
