"""The job that Spark runs on an executor: one copy.

It imports little, so it can report what a node lacks. The closure that Spark carries is a
function of this module and a `CopyTicket`: the address of the control channel and a token that
opens it once. Everything else, credentials above all, comes over that channel. A task returns one
row: (outcome, text).
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import platform
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mm2.copier import engine

OUTCOME_ENDED = "ended"
"""The copy returned: it was stopped, or has told its worker why it ended."""
OUTCOME_SECOND_ATTEMPT = "second-attempt"
"""Spark ran the task again, which happens when a whole executor is lost: nothing was done."""
OUTCOME_UNFIT_NODE = "unfit"
"""The node lacks something; the text names it."""

WARM_UP_ENTRY = "mm2.copier.spark.executor_job:run_warm_up"
"""The entry of a copy that copies nothing."""

REQUIRED_PACKAGES = ("kio", "crc32c", "scramp", "cramjam", "zstandard")
"""What a copy needs beside Python and our own packages, which travel with the job."""

_PR_SET_PDEATHSIG = 1

_is_process_prepared = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTicket:
    """`entry` is the function to run, as `module:function`."""

    address: str
    token: bytes = field(repr=False)
    entry: str
    wheels: tuple[str, ...] = REQUIRED_PACKAGES


def run_partition(ticket: CopyTicket, _rows: Iterable[object]) -> Iterator[tuple[str, str]]:
    """The body of `mapPartitions`."""
    from pyspark import TaskContext  # only where Spark is

    context = TaskContext.get()
    assert context is not None, "Spark runs this, nobody else"
    attempt = context.attemptNumber()
    if attempt:
        yield OUTCOME_SECOND_ATTEMPT, f"attempt {attempt} on {socket.gethostname()}"
        return
    yield run_copy(ticket)


def run_copy(ticket: CopyTicket) -> tuple[str, str]:
    """Run the copy to its end on this thread."""
    missing = [name for name in ticket.wheels if importlib.util.find_spec(name) is None]
    if missing:
        return OUTCOME_UNFIT_NODE, describe_missing_packages(missing)
    entry = engine.resolve_entry(ticket.entry)
    _prepare_process_once()
    entry(ticket.address, ticket.token, 0)
    return OUTCOME_ENDED, ""


def run_warm_up(_address: str, _token: bytes, _attempt: int) -> None:
    """A copy that ends at once: what a process of copies needs is loaded then (`WARM_UP_ENTRY`)."""


def describe_missing_packages(missing: list[str]) -> str:
    """What an executor lacks (`missing`: packages), and what helps."""
    return (
        f"{socket.gethostname()}: {sys.executable} (Python {platform.python_version()}) lacks "
        f"{', '.join(missing)}; install {'it' if len(missing) == 1 else 'them'} there "
        f"(pip install {' '.join(missing)}), or set spark.python to an interpreter that has them"
    )


def _prepare_process_once() -> None:
    """Prepare this process, which may run several copies one after the other.

    Spark collects garbage after each task: what is loaded now need not be looked at again. Without
    its daemon nobody could kill this process any more: it goes when the daemon goes.
    """
    global _is_process_prepared
    if not _is_process_prepared:
        _is_process_prepared = True
        gc.freeze()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
