"""A source that holds letters from offset 100 on, and a mirror that MirrorMaker 2 wrote to."""

from __future__ import annotations

from typing import Any

from mm2.replication.recovery_instructions import JavaMirrorProgress
from tests.fakes import scripts, taking
from tests.fakes.scripts import Log

STRANGER = (99, 0)
LETTERS = [b"a", b"b", b"c", b"d", b"e", b"f"]
SOURCE = Log(scripts.data(100, *LETTERS, leader_epoch=9), start=100)
ANCHOR = taking.anchor(101, 41)
_JAVA = (-1, -1)
_MARKER = scripts.marker(50, taking.OURS, leader_epoch=2)


def java(next_offset: int, sync: tuple[int, int] | None = None) -> JavaMirrorProgress:
    return JavaMirrorProgress(next_offset=next_offset, sync=sync)


def wrote(at: int, *values: bytes, producer: tuple[int, int] = _JAVA, **more: Any) -> bytes:
    return scripts.data(at, *values, producer=producer, **more)


def mirror(*held: bytes, start: int = 0) -> Log:
    """Our marker is at 50."""
    return Log(*held, _MARKER, start=start)
