"""CPU time and memory of a process and all that it started, from /proc (Linux)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_BUSY = slice(0, 8)  # user, nice, system, idle, iowait, irq, softirq, steal
_IDLE = (3, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """What /proc says about one process; `born` in ticks since the machine started."""

    pid: int
    parent: int
    born: int
    ticks: int
    """Its own time and that of the children it has waited for, user and system."""

    @property
    def identity(self) -> tuple[int, int]:
        """Process ids are used again; with the time of birth they are not."""
        return self.pid, self.born


@dataclass(slots=True)
class ProcessTree:
    """Watches the tree of one process; look at least every second.

    A process that was seen once is counted to the end, even if its parent dies and another one
    adopts it. Children that end are counted by whoever waits for them; what nobody in the tree
    waits for is remembered as it was last seen.
    """

    root: int
    _known: dict[tuple[int, int], Stat] = field(default_factory=dict)
    _orphaned_ticks: int = 0

    def cpu_s(self) -> float:
        """CPU-seconds of the tree since it began; never less than the last time."""
        self._look()
        return (self._orphaned_ticks + sum(each.ticks for each in self._known.values())) / (
            _TICKS_PER_S
        )

    def pss_bytes(self) -> int:
        """Memory of the tree: what is shared counts once."""
        self._look()
        return sum(_pss_bytes(pid) for pid, _ in self._known)

    def pids(self) -> list[int]:
        self._look()
        return [pid for pid, _ in self._known]

    def _look(self) -> None:
        running = {each.identity: each for each in _all_stats()}
        members = {key: running[key] for key in self._known if key in running}
        pids = {pid for pid, _ in members} | {self.root}
        members |= {key: each for key, each in running.items() if each.pid == self.root}
        grown = True
        while grown:
            more = {
                key: each
                for key, each in running.items()
                if key not in members and each.parent in pids
            }
            members |= more
            pids |= {pid for pid, _ in more}
            grown = bool(more)
        for key, last in self._known.items():
            if key not in members and last.parent not in pids and last.pid != self.root:
                self._orphaned_ticks += last.ticks
        self._known = members


def machine_busy_s() -> float:
    """CPU-seconds that all processors together were not idle since the machine started."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:]][_BUSY]
    return (sum(ticks) - sum(ticks[place] for place in _IDLE)) / _TICKS_PER_S


def process_cpu_s(pid: int) -> float:
    """CPU-seconds of one process and the children it has waited for."""
    return parse_stat(pid, Path(f"/proc/{pid}/stat").read_text(errors="replace")).ticks / (
        _TICKS_PER_S
    )


def own_cpu_s() -> float:
    """CPU-seconds of this process and the children it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _all_stats() -> Iterable[Stat]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            # It may have ended since it was listed.
            with suppress(OSError, IndexError):
                text = Path(f"/proc/{entry}/stat").read_text(errors="replace")
                yield parse_stat(int(entry), text)


def parse_stat(pid: int, text: str) -> Stat:
    """The fields after the program's name, which may hold spaces and brackets (proc(5))."""
    words = text.rpartition(")")[2].split()
    return Stat(
        pid=pid,
        parent=int(words[1]),
        born=int(words[19]),
        ticks=sum(int(word) for word in words[11:15]),
    )


def _pss_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
