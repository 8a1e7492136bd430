"""Runs fuzz targets: the same inputs for the same seed number. Each is judged by what it raises, by
its processor time and by its memory.

    python -m tests.fuzz.runner --seconds 60                 every target, a minute each
    python -m tests.fuzz.runner --seconds 600 --target map-key --seed 7 --save /tmp/found
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import random
import re
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from connect_runtime.system.system_clock import SystemClock
from tests.fuzz import mutation, targets
from tests.fuzz.targets import Target

CLOCK = SystemClock()
ROOT = Path(__file__).parents[2]
HANGS_S = 120.0
"""An input that takes so long ends the whole run with a stack trace: nothing else can end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`what`: the error and where it was raised, `slow` or `memory`."""

    what: str
    detail: str
    data: bytes = field(repr=False)


@dataclass(slots=True, kw_only=True)
class Report:
    """`refused`: how many inputs raised an allowed error, by its name. `findings`: the first of
    each kind."""

    target: str
    inputs: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    findings: dict[str, Finding] = field(default_factory=dict)

    def describe(self) -> str:
        refused = ", ".join(f"{name} {count}" for name, count in sorted(self.refused.items()))
        figures = f"{self.inputs} inputs, slowest {self.slowest_s * 1000:.0f} ms"
        lines = [f"{self.target}: {figures}; refused: {refused or 'none'}"]
        for each in self.findings.values():
            lines.append(f"  FOUND {each.what}: {each.detail}")
            lines.append(f"        {len(each.data)} bytes: {each.data[:80]!r}")
        return "\n".join(lines)


def run(
    target: Target,
    *,
    seed: int = 1,
    inputs: int | None = None,
    seconds: float | None = None,
) -> Report:
    """All seeds, then mutations of them, until there were as many `inputs` or time is up."""
    rng = random.Random(f"{target.name}:{seed}")
    report = Report(target=target.name)
    ends_s = float("inf") if seconds is None else CLOCK.now_s() + seconds
    _forget_peak_memory()
    for data in _inputs(target, rng):
        done = inputs is not None and report.inputs >= inputs
        if done or CLOCK.now_s() >= ends_s:
            break
        judge(target, data, report)
    return report


def _inputs(target: Target, rng: random.Random) -> Iterator[bytes]:
    seeds = target.all_seeds()
    yield from seeds
    while True:
        yield mutation.mutated(rng, seeds, text=target.text)


def judge(target: Target, data: bytes, report: Report) -> None:
    """Call the target with one input, and note in the report what became of it."""
    report.inputs += 1
    if _peak_bytes() - _resident_bytes() > target.memory_bytes // 2:
        _forget_peak_memory()  # otherwise, an old peak would hide what this input takes
    before_bytes = _peak_bytes()
    took_s = _call(target, data, report)
    if took_s > target.slow_s:  # the garbage of other inputs may have been collected meanwhile
        took_s = min(took_s, _call(target, data, report))
    report.slowest_s = max(report.slowest_s, took_s)
    if took_s > target.slow_s:
        _found(report, "slow", f"{took_s:.1f} s of processor time", data)
    grown_bytes = _peak_bytes() - before_bytes
    if grown_bytes > target.memory_bytes:
        _found(report, "memory", f"{grown_bytes >> 20} MB", data)
        _forget_peak_memory()


def _call(target: Target, data: bytes, report: Report) -> float:
    started_s = time.process_time()
    try:
        target.call(data)
    except target.allowed as error:
        report.refused[type(error).__name__] += 1
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        _found(report, f"{type(error).__name__} {_place(error)}", str(error)[:200], data)
    return time.process_time() - started_s


def _found(report: Report, what: str, detail: str, data: bytes) -> None:
    report.findings.setdefault(what, Finding(what=what, detail=detail, data=data))


def _place(error: Exception) -> str:
    """The innermost line of our own that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if each.filename.startswith(str(ROOT))]
    last = (own or frames)[-1]
    return f"{last.filename.removeprefix(f'{ROOT}/')}:{last.lineno}"


def _peak_bytes() -> int:
    """The peak of this program; `ru_maxrss` begins with that of the process that started it."""
    line = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert line is not None
    return int(line[1]) * 1024


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def _forget_peak_memory() -> None:
    """What was used before counts no more, where the system allows it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def main(arguments: list[str]) -> int:
    """1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.runner")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each target")
    parser.add_argument("--inputs", type=int, help="for each target at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append", help="only this one; repeatable")
    parser.add_argument("--save", type=Path, help="a folder for the inputs that found something")
    given = parser.parse_args(arguments)
    known = targets.registered()
    total, failed = 0, False
    for name in given.target or known:
        faulthandler.dump_traceback_later(given.seconds + HANGS_S, exit=True, file=2)
        report = run(known[name], seed=given.seed, inputs=given.inputs, seconds=given.seconds)
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.write(f"{report.describe()}\n")
        sys.stdout.flush()
        total += report.inputs
        failed = failed or bool(report.findings)
        if given.save is not None:
            _save(report, given.save)
    sys.stdout.write(f"{total} inputs in all, seed {given.seed}\n")
    return int(failed)


def _save(report: Report, folder: Path) -> None:
    for number, each in enumerate(report.findings.values(), start=1):
        path = folder / report.target / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(each.data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
