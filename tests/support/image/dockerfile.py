"""As much of a Dockerfile as ours uses, read: stages with their instructions, and what is ignored.

What is not known is refused: a test that follows the file must not pass over a line of it.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

KNOWN = frozenset(
    {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN"}
    | {"STOPSIGNAL", "USER", "VOLUME", "WORKDIR"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """`text` is all behind the name, continued lines joined."""

    line: int
    name: str
    text: str

    @property
    def words(self) -> tuple[str, ...]:
        """Of a JSON list, or as a shell divides them."""
        if self.text.startswith("["):
            return tuple(json.loads(self.text))
        return tuple(shlex.split(self.text))

    @property
    def pairs(self) -> Mapping[str, str]:
        """Of `KEY=VALUE …`."""
        return dict(word.split("=", 1) for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`base` is an image, or an earlier stage; `name` may be empty."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def all(self, name: str) -> tuple[Instruction, ...]:
        return tuple(each for each in self.instructions if each.name == name)

    def last(self, name: str) -> Instruction:
        """The one that counts; raises `LookupError` where there is none."""
        found = self.all(name)
        if not found:
            raise LookupError(f"the Dockerfile has no {name} in its stage {self.name or 'last'}")
        return found[-1]

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """What `ENV` makes of the base's environment."""
        found = dict(before)
        for each in self.all("ENV"):
            for key, value in each.pairs.items():
                found[key] = _filled(value, found)
        return found

    @property
    def healthcheck(self) -> tuple[str, ...]:
        """The command of `HEALTHCHECK … CMD [...]`."""
        _, _, command = self.last("HEALTHCHECK").text.partition("CMD ")
        return tuple(json.loads(command))


def parse(text: str) -> tuple[Stage, ...]:
    """The stages; raises `ValueError` for an instruction that nobody here can follow."""
    stages: list[tuple[str, str, list[Instruction]]] = []
    defaults: dict[str, str] = {}
    for each in _instructions(text):
        if each.name not in KNOWN:
            raise ValueError(f"line {each.line}: {each.name} is not known here")
        if each.name == "FROM":
            base, _, name = each.text.partition(" AS ")
            stages.append((_filled(base, defaults), name, []))
        elif not stages:
            defaults |= each.pairs
        else:
            stages[-1][2].append(each)
    return tuple(
        Stage(base=base, name=name, instructions=tuple(found)) for base, name, found in stages
    )


def _filled(text: str, values: Mapping[str, str]) -> str:
    """With `${NAME}` replaced."""
    return re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], text)


def _instructions(text: str) -> list[Instruction]:
    found: list[Instruction] = []
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#") or not line.strip():
            continue
        first = first if begun else number
        begun += line.strip()
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        name, _, rest = begun.partition(" ")
        found.append(Instruction(line=first, name=name, text=rest.strip()))
        begun = ""
    return found


class Ignored:
    """A `.dockerignore`: is a path of the context left out? The last line that matches decides."""

    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in text.splitlines()]
        self._rules = [
            (line.removeprefix("!"), not line.startswith("!"))
            for line in lines
            if line and not line.startswith("#")
        ]

    def __call__(self, path: str) -> bool:
        out = False
        for pattern, ignores in self._rules:
            if _matches(pattern, PurePosixPath(path).parts):
                out = ignores
        return out


def _matches(pattern: str, parts: Sequence[str]) -> bool:
    """Does it name the path, or a folder above it?"""
    wanted = PurePosixPath(pattern).parts
    if wanted[0] == "**":
        assert len(wanted) == 2, f"{pattern!r} is not known here"
        return any(fnmatch.fnmatchcase(part, wanted[1]) for part in parts)
    return len(parts) >= len(wanted) and all(
        fnmatch.fnmatchcase(part, each) for part, each in zip(parts, wanted, strict=False)
    )
