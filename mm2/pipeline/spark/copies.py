"""One copy on Spark: its driver thread waits in `collect` until the task has ended."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from mm2.pipeline import engine
from mm2.pipeline.spark import failures, job

if TYPE_CHECKING:
    from mm2.pipeline.spark import driver


class SparkCopy:
    """The handle of one copy, and what its threads need to know about its job."""

    def __init__(self, copy: engine.CopyJob, *, group: str) -> None:
        self.copy = copy
        self.group = group
        self.progress = engine.CopyProgress()
        self.cancelled = threading.Event()
        self.stage: int | None = None
        self.idle_looks = 0

    @property
    def state(self) -> engine.CopyState:
        return self.progress.state

    @property
    def error(self) -> str | None:
        return self.progress.error

    def cancel(self) -> None:
        """The engine's watch cancels the job, again and again until it has ended: a job that is
        just being submitted cannot be cancelled yet."""
        self.cancelled.set()

    def wait(self, timeout_s: float) -> bool:
        return self.progress.wait(timeout_s)

    def run(self, spark: driver.Driver) -> None:
        """The body of the driver thread: returns when the job has ended, and says how."""
        if self.cancelled.is_set():
            self.progress.ended(failures.CANCELLED)
            return
        ticket = job.Ticket(address=self.copy.address, token=self.copy.token, entry=self.copy.entry)
        try:
            rows = spark.run(ticket, group=self.group, description=self.copy.description)
        except failures.JobFailedError as error:
            self._failed(str(error))
        except failures.GoneError:
            self._failed(failures.JVM_DIED)
        else:
            self.progress.ended(outcome(rows))

    def _failed(self, reason: str) -> None:
        """However Spark ended a copy that was cancelled: it was cancelled."""
        self.progress.ended(failures.CANCELLED if self.cancelled.is_set() else reason)

    def look(self, spark: driver.Driver) -> None:
        """Ask Spark how the job stands. A task that ran and now waits again was lost with its
        executor: it would only end as a second attempt, and not before a slot is free."""
        if self.stage is None:
            self.stage = spark.stage_of(self.group)
            if self.stage is None:
                return
        if spark.active_tasks(self.stage):
            self.idle_looks = 0
            self.progress.running()
        elif self.state is engine.CopyState.RUNNING:
            self.idle_looks += 1
            if self.idle_looks >= 2 and self.progress.ended(failures.TASK_LOST):
                self.cancelled.set()


def outcome(rows: list[tuple[str, str]]) -> str | None:
    """What the task said about its end; None when the copy ended in order."""
    match rows:
        case [(job.ENDED, _)]:
            return None
        case [(job.SECOND_ATTEMPT, text)]:
            return f"{failures.TASK_LOST} ({text} did nothing)"
        case [(_, text)]:
            return text
    return f"the task returned {len(rows)} rows instead of one"
