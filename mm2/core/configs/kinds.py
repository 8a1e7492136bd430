"""The types that a setting's text can have: what is allowed, said and checked in one place.

Texts are read as Kafka's `ConfigDef` reads them: trimmed, booleans true or false in any case.
Every `parse` raises `ValueError`; its message is only shown where it adds to `allowed`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mm2.core import filters, flows
from mm2.core.configs import java_classes, own_values

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class RefusedError(ValueError):
    """A text that cannot be used for a reason that `allowed` does not tell."""


class Kind(Protocol[T_co]):
    """How one setting's text is understood."""

    @property
    def allowed(self) -> str:
        """What may be given, for people."""
        ...

    @property
    def is_list(self) -> bool:
        """Are several values taken, as a YAML list or separated by commas?"""
        ...

    def parse(self, texts: tuple[str, ...]) -> T_co:
        """`texts` has exactly one item unless `is_list`. Raises `ValueError`."""
        ...


@dataclass(frozen=True, slots=True)
class One(Generic[T]):
    """A single value, read by `read` from trimmed text."""

    allowed: str
    read: Callable[[str], T]

    @property
    def is_list(self) -> bool:
        return False

    def parse(self, texts: tuple[str, ...]) -> T:
        (text,) = texts
        return self.read(text.strip())


@dataclass(frozen=True, slots=True)
class Patterns:
    """A list of regular expressions."""

    allowed: str = "regular expressions, as a YAML list or separated by commas"

    @property
    def is_list(self) -> bool:
        return True

    def parse(self, texts: tuple[str, ...]) -> filters.Patterns:
        return filters.compile_patterns(texts)


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of any texts."""

    allowed: str = "texts, as a YAML list or separated by commas"

    @property
    def is_list(self) -> bool:
        return True

    def parse(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return texts


@dataclass(frozen=True, slots=True)
class TopicBudgets:
    """A list of `EXPRESSION=RATE`."""

    allowed: str = "EXPRESSION=RATE, such as orders.*=5MB, as a YAML list or separated by commas"

    @property
    def is_list(self) -> bool:
        return True

    def parse(self, texts: tuple[str, ...]) -> tuple[flows.TopicBudget, ...]:
        return tuple(own_values.read_topic_budget(text) for text in texts)


def text(allowed: str = "text") -> One[str]:
    return One(allowed, _not_blank)


def boolean() -> One[bool]:
    return One("true or false", _boolean)


def whole(least: int, most: int | None = None, *, or_minus_one: bool = False) -> One[int]:
    """A whole number from `least` to `most`, or -1 where that has a meaning of its own."""
    words = f"a whole number from {least}" + (f" to {most}" if most is not None else " up")
    words += ", or -1" if or_minus_one else ""

    def read(value: str) -> int:
        number = int(value) if re.fullmatch(r"[+-]?[0-9]{1,19}", value) else None
        fits = number is not None and number >= least and (most is None or number <= most)
        if number is None or not (fits or (or_minus_one and number == -1)):
            raise ValueError(value)
        return number

    return One(words, read)


def byte_rate() -> One[int]:
    """Bytes per second: `500kB`, `20MB`, `1GiB`, with or without `/s`."""
    return One(own_values.RATE_ALLOWED, own_values.read_rate)


def choice(*names: str) -> One[str]:
    """One of `names`, in any case; the answer is spelled as in `names`."""

    def read(value: str) -> str:
        for name in names:
            if value.lower() == name.lower():
                return name
        raise ValueError(value)

    return One(" or ".join(names), read)


def plugin_class(*names: str) -> One[str]:
    """One of `names`, as in `choice`, or a class of Python, which is imported."""
    shipped = choice(*names)

    def read(value: str) -> str:
        try:
            return shipped.read(value)
        except ValueError:
            if not java_classes.is_python(value):
                raise
        try:
            java_classes.load_and_import(value)
        except LookupError as error:
            raise RefusedError(str(error)) from error
        return value

    return One(f"{shipped.allowed}, or a Python class: package.module:Class", read)


def matching(pattern: str, allowed: str) -> One[str]:
    """Text that matches the whole regular expression `pattern`."""

    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(value)
        return value

    return One(allowed, read)


def start_position() -> One[flows.StartPosition]:
    return One(own_values.START_ALLOWED, own_values.read_start)


def _not_blank(value: str) -> str:
    if not value:
        raise ValueError(value)
    return value


def _boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError(value)
    return value.lower() == "true"
