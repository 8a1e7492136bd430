"""Fuzz targets: what is called with foreign bytes, and what it may raise.

A new target is one `register` in a module `tests/fuzz/*_targets.py`. Files in `corpus/<name>` are
seeds of the target of that name, too: failing inputs go there once what they showed is repaired.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
SLOW_S = 1.0
MEMORY_BYTES = 200 * 1024 * 1024

Errors = tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`call` must return, or raise one of `allowed`, for any bytes: within `slow_s` of processor
    time and with `memory_bytes` more memory than before. `text`: the bytes are text of a kind, and
    inputs are made of words of JSON, YAML and configuration files, too."""

    name: str
    call: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    allowed: Errors = ()
    text: bool = False
    slow_s: float = SLOW_S
    memory_bytes: int = MEMORY_BYTES

    def all_seeds(self) -> list[bytes]:
        """The corpus first, whose inputs showed something once."""
        return [*corpus(self.name), *(bytes(each) for each in self.seeds())]


_REGISTERED: dict[str, Target] = {}


def register(
    name: str,
    call: Callable[[bytes], object],
    *,
    seeds: Callable[[], Iterable[bytes]] | Iterable[bytes],
    allowed: Errors = (),
    text: bool = False,
    slow_s: float = SLOW_S,
    memory_bytes: int = MEMORY_BYTES,
) -> Target:
    """`seeds`: valid inputs, or what makes them once they are needed. Names are used once."""
    assert name not in _REGISTERED, f"two targets are called {name}"
    given = seeds if callable(seeds) else list(seeds)
    made = Target(
        name=name,
        call=call,
        seeds=given if callable(given) else lambda: given,
        allowed=allowed,
        text=text,
        slow_s=slow_s,
        memory_bytes=memory_bytes,
    )
    _REGISTERED[name] = made
    return made


def registered() -> Mapping[str, Target]:
    """All targets of all modules, by name."""
    for path in sorted(HERE.glob("*_targets.py")):
        importlib.import_module(f"tests.fuzz.{path.stem}")
    return dict(_REGISTERED)


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
