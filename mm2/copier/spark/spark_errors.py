"""Errors of the Spark engine, each explained in one line, because Spark prints pages of stack
traces."""

from __future__ import annotations

import re

from connect_runtime.base.errors import FatalError, RetriableError

_PYTHON_TRACEBACK = "Traceback (most recent call last):\n"
_END_OF_PYTHON_TRACEBACK = re.compile(r"\n[^\S\n]*+\n|\n\tat |SQLSTATE")
_REASON = re.compile(r"Reason: (.*)")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_PYTHON_VERSION_MISMATCH = re.compile(r"PYTHON_VERSION_MISMATCH\] *(.*)")
_NO_JAVA = re.compile(r"\bjava: (?:No such file|not found|command not found|Permission denied)")

CANCELLED = "cancelled"
JVM_DIED = "Spark's JVM terminated unexpectedly"
TASK_LOST = "the Spark executor that ran this copy process was lost"


class SparkStartError(FatalError):
    """Spark did not start. The message states the cause and the remedy."""


class SparkJobError(RetriableError):
    """The job of a copy process failed. The message states the cause in one line."""


class SparkUnavailableError(RetriableError):
    """The JVM did not respond to a call, because it has exited or cannot handle the call in its
    current state."""


def explain_job_failure(message: str) -> str:
    """Explain why a job with one task failed, from the message of Spark's exception."""
    if "SparkContext was shut down" in message:
        return "Spark has shut down"
    if "cancelled" in message and "Traceback" not in message:
        return CANCELLED
    if "Python worker exited unexpectedly" in message or "java.io.EOFException" in message:
        return "the copy process was killed or crashed"
    found = _PYTHON_VERSION_MISMATCH.search(message)
    if found:
        return f"the executors run a different Python version: {found[1].strip()}"
    found = _NO_PROGRAM.search(message)
    if found:
        return (
            f"the program {found[1]} is not installed on the executor: set spark.python to an "
            "interpreter that is installed on every node"
        )
    _, is_python, trace = message.partition(_PYTHON_TRACEBACK)
    if is_python:
        trace = _END_OF_PYTHON_TRACEBACK.split(trace, maxsplit=1)[0]
        return trace.rstrip().rpartition("\n")[2].strip()
    if "ExecutorLostFailure" in message or "Remote RPC client disassociated" in message:
        found = _REASON.search(message)
        return f"the Spark executor was lost{': ' + found[1].strip() if found else ''}"
    return message.strip().partition("\n")[0] or "Spark reported no cause"


def explain_start_failure(output: str, *, master: str) -> str:
    """Explain why the Spark driver did not start, from its output and exception."""
    if "JAVA_HOME is not set" in output or _NO_JAVA.search(output):
        return "starting Spark: no Java found; install Java 17 or newer, or set JAVA_HOME"
    if "UnsupportedClassVersionError" in output:
        return (
            "starting Spark: the Java version is too old; Java 17 or newer is required (set "
            "JAVA_HOME to its path)"
        )
    if "jdk.incubator.vector" in output and "not found" in output:
        return (
            "starting Spark: this Java installation lacks the module jdk.incubator.vector; "
            "install a full JDK"
        )
    if "All masters are unresponsive" in output:
        return (
            f"starting Spark: no master responds at {master}; the master must be running and have "
            "the same Spark version"
        )
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "Exception" in line or "Error" in line]
    cause = (errors or lines or ["it printed nothing"])[0 if errors else -1]
    return f"starting Spark at {master}: {cause[:500]}"
