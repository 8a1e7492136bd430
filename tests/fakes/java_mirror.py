"""A source that holds letters from offset 100 on, and a mirror that MirrorMaker 2 wrote to."""

from __future__ import annotations

from typing import Any

from mm2.core.copy import facts
from tests.fakes import scripts, taking

STRANGER = (99, 0)
LETTERS = [b"a", b"b", b"c", b"d", b"e", b"f"]
SOURCE = scripts.Log(scripts.data(100, *LETTERS, leader_epoch=9), start=100)
ANCHOR = taking.anchor(101, 41)
_JAVA = (-1, -1)
_MARKER = scripts.marker(50, taking.OURS, leader_epoch=2)


def java(next_offset: int, sync: tuple[int, int] | None = None) -> facts.JavaProgress:
    return facts.JavaProgress(next_offset=next_offset, sync=sync)


def wrote(at: int, *values: bytes, producer: tuple[int, int] = _JAVA, **more: Any) -> bytes:
    return scripts.data(at, *values, producer=producer, **more)


def mirror(*held: bytes, start: int = 0) -> scripts.Log:
    """Our marker is at 50."""
    return scripts.Log(*held, _MARKER, start=start)
