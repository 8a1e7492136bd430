"""The job that Spark runs on an executor: one copy process.

This module imports little, so that it can report packages that are missing on a node. The closure
sent by Spark is a function of this module and a `SparkCopyParameters`: the address of the control
channel and a single-use token for it. All other data, in particular credentials, is sent over that
channel. A task returns one row: the outcome and an error message ("" if there is none), as a JSON
array.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import json
import platform
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mm2.copier import copy_engine

OUTCOME_ENDED = "ended"
"""Outcome of a copy process that was stopped, or that failed and has reported the error over the
control channel."""
OUTCOME_SECOND_ATTEMPT = "second-attempt"
"""Outcome of a task that Spark started again after losing an executor. A second attempt does
nothing."""
OUTCOME_UNFIT_NODE = "unfit"
"""Outcome of a task on a node that lacks a required package. The error message names the
package."""

WARM_UP_ENTRY = "mm2.copier.spark.executor_job:run_warm_up"
"""Entry point of an empty copy process, which only loads modules."""

REQUIRED_PACKAGES = ("kio", "crc32c", "scramp", "cramjam", "zstandard")
"""Packages that a copy process needs in addition to the packages sent with the job."""

_MAX_OUTCOME_BYTES = 65_536
_PR_SET_PDEATHSIG = 1

_is_process_prepared = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCopyParameters:
    """Parameters of one copy process, serialized with the Spark closure."""

    address: str
    token: bytes = field(repr=False)
    entry: str
    """The function to run, named as `module:function`."""
    required_packages: tuple[str, ...] = REQUIRED_PACKAGES
    """Packages that must be installed on the node."""


def run_copy_in_spark_task(ticket: SparkCopyParameters, _rows: Iterable[object]) -> Iterator[bytes]:
    """Run one copy process and yield one row with its outcome, which `decode_outcome` decodes. This
    is the function passed to `mapPartitions`."""
    from pyspark import TaskContext  # available on executors only

    context = TaskContext.get()
    assert context is not None, "must be called from a Spark task"
    attempt = context.attemptNumber()
    if attempt:
        text = f"attempt {attempt} on {socket.gethostname()}"
        yield json.dumps([OUTCOME_SECOND_ATTEMPT, text]).encode()
        return
    yield json.dumps(run_copy(ticket)).encode()


def decode_outcome(row: bytes) -> tuple[str, str]:
    """Decode the row that a task returned into the outcome and an error message, which may be
    empty. Raises `ValueError` if the row is malformed."""
    if len(row) > _MAX_OUTCOME_BYTES:
        raise ValueError(f"larger than {_MAX_OUTCOME_BYTES} bytes")
    try:
        found = json.loads(row)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not (isinstance(found, list) and len(found) == 2 and all(isinstance(e, str) for e in found)):
        raise ValueError("the row is not an array of two strings")
    outcome, text = found
    return outcome, text


def run_copy(ticket: SparkCopyParameters) -> tuple[str, str]:
    """Run the copy process on this thread until it ends."""
    missing = [name for name in ticket.required_packages if importlib.util.find_spec(name) is None]
    if missing:
        return OUTCOME_UNFIT_NODE, describe_missing_packages(missing)
    entry = copy_engine.resolve_entry_point(ticket.entry)
    _set_up_worker_process_once()
    entry(ticket.address, ticket.token, 0)
    return OUTCOME_ENDED, ""


def run_warm_up(_address: str, _token: bytes, _attempt: int) -> None:
    """Do nothing. This is the entry point of the warm-up job (`WARM_UP_ENTRY`). Starting the job
    loads the modules that copy processes need."""


def describe_missing_packages(missing: list[str]) -> str:
    """Format the error message for missing packages, with the command that installs them."""
    return (
        f"{socket.gethostname()}: {sys.executable} (Python {platform.python_version()}) lacks "
        f"{', '.join(missing)}; install {'it' if len(missing) == 1 else 'them'} there "
        f"(pip install {' '.join(missing)}), or set spark.python to an interpreter that has them"
    )


def _set_up_worker_process_once() -> None:
    """Prepare this worker process, which may run several copy processes in sequence.

    `gc.freeze` excludes the loaded modules from the garbage collection that Spark runs after each
    task. PR_SET_PDEATHSIG kills this process when its parent, the pyspark daemon, ends, because
    nothing else could stop this process afterwards.
    """
    global _is_process_prepared
    if not _is_process_prepared:
        _is_process_prepared = True
        gc.freeze()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
