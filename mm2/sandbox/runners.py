"""Where the Java programs of a cluster run, and how they are started there.

On this machine, from the sandbox's own jars; `containers.py` is the other place.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from connect_runtime.system import processes
from mm2.sandbox import jvm


class Program(Protocol):
    """A program that runs, or has ended: what `processes.Child` is."""

    @property
    def pid(self) -> int:
        """Its process id on this machine."""
        ...

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        ...

    def wait(self, timeout_s: float) -> int | None:
        """Like `poll`, after waiting `timeout_s` at most."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; an ended program is left in peace."""
        ...

    def kill(self) -> int:
        """SIGKILL, and wait until it has gone; its exit status."""
        ...


class Runner(Protocol):
    """Brokers and the tool that formats their storage. Nothing of it outlives this process."""

    @property
    def features(self) -> Path | None:
        """Where the feature levels are kept that `kafka-storage` wrote for the first broker."""
        ...

    def broker(self, settings: Path, *, flags: tuple[str, ...]) -> list[str]:
        """The command line of a broker with a settings file; `flags` are for its JVM."""
        ...

    def storage_tool(self, *arguments: str, flags: tuple[str, ...]) -> list[str]:
        """The command line of `kafka-storage`."""
        ...

    def start(self, argv: Sequence[str], *, output: IO[bytes], cwd: Path) -> Program:
        """Run one of these; stdout and stderr go to the file `output`.

        Raises `FatalError` when it cannot be started at all.
        """
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """On this machine. `archive` are the flags for its class-data archive, if it has one."""

    jars: Path
    archive: tuple[str, ...] = ()

    @property
    def features(self) -> Path | None:
        return self.jars.with_name(f"{self.jars.name}.features")

    def broker(self, settings: Path, *, flags: tuple[str, ...]) -> list[str]:
        return self._command("kafka.Kafka", str(settings), flags=flags)

    def storage_tool(self, *arguments: str, flags: tuple[str, ...]) -> list[str]:
        return self._command("kafka.tools.StorageTool", *arguments, flags=flags)

    def start(self, argv: Sequence[str], *, output: IO[bytes], cwd: Path) -> Program:
        return processes.start(argv, output=output, cwd=cwd)

    def _command(self, main_class: str, *arguments: str, flags: tuple[str, ...]) -> list[str]:
        return jvm.command(main_class, *arguments, jars=self.jars, flags=(*flags, *self.archive))
