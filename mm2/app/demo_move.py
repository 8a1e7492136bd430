"""The last part of `mm2 demo`: a consumer group that works is moved to the other cluster, by the
command that people type, with hooks that stop the applications.

A hook is a shell command that leaves a note in a folder and waits for the answer there; it ends
when the folder is removed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.base import errors
from connect_runtime.system import processes
from mm2.sandbox import clients
from mm2.sandbox.traffic import applications, topics

ORDERS = topics.Topic(name="orders", partitions=2)
GROUP = "billing"
SETTLE_S = 1
"""How long both ends have to agree; an operator gives it more."""
WORKED = 500
"""So many records are processed before the move, and after it."""
LATER = 1_000_000_000
"""The first number of what is written on the other cluster."""
_HOOK_TIMEOUT_MS = 60_000
_HOOK = """\
  {step}:
    command: [sh, -c, 'touch {note}.asked; while [ -e {note}.asked ] && ! [ -e {note}.done ]; do
      sleep 0.1; done']
    timeout.ms: {timeout_ms}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What became of the records that a group works on, written on either cluster. `seconds`: from
    the command's start until the group works on the other one as before."""

    origin: str
    destination: str
    sent: int
    before: int
    after: int
    read_again: int
    missing: int
    seconds: float

    @property
    def exact(self) -> bool:
        """Each record was processed once."""
        return not self.read_again and not self.missing


class MoveFailedError(errors.FatalError):
    """`mm2 failover` did not do it."""


class Move:
    """`source` and `target` say how to reach the clusters; `wait(done, doing)` waits until `done`
    or raises; `now_s` is a clock."""

    def __init__(
        self,
        folder: Path,
        source: clients.Properties,
        target: clients.Properties,
        *,
        mirror: str,
        wait: Callable[[Callable[[], bool], str], object],
        now_s: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._wait = wait
        self._now_s = now_s
        self._source = source
        self._target = target
        count = ORDERS.partitions
        self._writing = applications.Writing(source, ORDERS.name, partitions=count)
        self._reading = applications.Reading(source, GROUP, ORDERS.name)
        self._writing_there = applications.Writing(
            target, ORDERS.name, partitions=count, first=LATER
        )
        self._reading_there = applications.Reading(target, GROUP, mirror, ORDERS.name)
        self._answers: Mapping[str, Callable[[], None]] = {
            "stop-producers": self._writing.stop,
            "stop-consumers": self._reading.stop,
            "start-consumers": self._reading_there.start,
            "start-producers": self._writing_there.start,
        }
        self._child: processes.Child | None = None

    def close(self) -> None:
        """End whatever still runs."""
        if self._child is not None:
            self._child.kill()
        for each in (
            *(self._writing, self._writing_there),
            *(self._reading, self._reading_there),
        ):
            each.end()

    def work(self) -> None:
        """The applications begin; returns when the move may."""
        made = clients.Clients(self._target, alias=GROUP)
        topics.create(made, [ORDERS])  # what is written there later has a topic of its own
        for side in (self._source, self._target):
            applications.begin(side, GROUP, ORDERS.name, partitions=ORDERS.partitions)
        self._writing.start()
        self._reading.start()
        self._wait(lambda: len(self._reading.processed) >= WORKED, f"the group {GROUP} works")

    def run(self, settings_file: Path, *, origin: str, destination: str) -> Moved:
        """The move, and the group's work until it has seen every record. Raises `MoveFailedError`,
        or what `wait` does."""
        began_s = self._now_s()
        self._execute(
            *("--from", origin, "--to", destination, "--group", GROUP, "--planned", "--execute"),
            *("--settle", str(SETTLE_S), "--journal", str(self._folder / "journal.jsonl")),
            *("--config", str(settings_file)),
        )
        before, after = self._reading.processed, self._reading_there.processed
        self._wait(
            lambda: sum(number >= LATER for number in after) >= WORKED,
            f"the group {GROUP} goes on at {destination}",
        )
        seconds = self._now_s() - began_s
        self._writing_there.stop()
        sent = self._writing.sent | self._writing_there.sent
        self._wait(lambda: sent <= {*before, *after}, f"the group {GROUP} has processed all")
        self._reading_there.stop()
        return Moved(
            origin=origin,
            destination=destination,
            sent=len(sent),
            before=len(before),
            after=len(after),
            read_again=len(before) + len(after) - len({*before, *after}),
            missing=len(sent - {*before, *after}),
            seconds=seconds,
        )

    def _execute(self, *arguments: str) -> None:
        """Run the command; what its hooks ask for is done meanwhile."""
        said = self._folder / "failover.txt"
        command = [sys.executable, "-m", "mm2.app.cli.main", "failover", *arguments]
        with said.open("wb") as output:
            self._child = child = processes.start(command, output=output)
            self._wait(lambda: self._answer() or child.poll() is not None, "mm2 failover")
        if child.poll():
            raise MoveFailedError(f"mm2 failover ended with {child.poll()}: {said.read_text()}")

    def _answer(self) -> bool:
        """Do what a hook asks for; never the end of anything."""
        for step, do in self._answers.items():
            done = self._folder / f"{step}.done"
            if (self._folder / f"{step}.asked").exists() and not done.exists():
                do()
                done.touch()
        return False


def hooks(folder: Path) -> str:
    """The section of `clusters.yaml`."""
    steps = ("stop-producers", "stop-consumers", "start-consumers", "start-producers")
    return "\nhooks:\n" + "".join(
        _HOOK.format(step=step, note=folder / step, timeout_ms=_HOOK_TIMEOUT_MS) for step in steps
    )
