"""Types of configuration values, with a parser and a description of allowed values for each type.

Text is parsed as in Kafka's `ConfigDef`: values are trimmed, and booleans are true or false in any
case. Parsers raise `ValueError`. `allowed` and the constants `*_ALLOWED` describe the allowed
values.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mm2.config import java_class_placeholders
from mm2.topics import topic_filters
from mm2.topics.flow_config import StartPosition, StartPositionKind, TopicThrottle
from mm2.topics.topic_filters import NamePatterns

MAX_TIMESTAMP_MS = 253_402_300_799_999
"""Last millisecond of the year 9999 (UTC), in milliseconds since the epoch. Later times cannot be
formatted."""
MIN_RATE_BYTES_S = 1_000
"""Minimum rate limit. At a lower rate, a single batch would take unreasonably long."""
START_ALLOWED = "earliest, latest, or a time with its time zone such as 2026-01-31T08:00:00Z"
NO_LIMIT = "none"
RATE_ALLOWED = f"bytes per second, at least {MIN_RATE_BYTES_S}, such as 500kB, 20MB or 1GiB"
LIMIT_ALLOWED = f"{RATE_ALLOWED}, or {NO_LIMIT}"

_RATE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) *([A-Za-z]*)(?:/s)?")
_RATE_FACTORS = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}


def parse_byte_rate(text: str) -> int:
    """Parse a rate such as `500kB`, `20MB/s` or `1GiB` to bytes per second."""
    found = _RATE.fullmatch(text.strip())
    factor = _RATE_FACTORS.get(found[2].lower()) if found else None
    rate = int(float(found[1]) * factor) if found and factor else 0
    if rate < MIN_RATE_BYTES_S:
        raise ValueError(text)
    return rate


def parse_topic_throttle(text: str) -> TopicThrottle:
    """Parse a topic throttle of the form `EXPRESSION=RATE`."""
    expression, _, rate = text.rpartition("=")
    if not expression.strip():
        raise ValueError(text)
    return TopicThrottle(topic_filters.compile_patterns((expression,)), parse_byte_rate(rate))


def parse_throttle(text: str) -> int:
    """Parse a rate as `parse_byte_rate` does, or `none` for no limit (returned as 0)."""
    return 0 if text.strip().lower() == NO_LIMIT else parse_byte_rate(text)


def parse_start_position(text: str) -> StartPosition:
    """Parse a start position: `earliest`, `latest` or an ISO 8601 time with a time zone."""
    if text.lower() in (StartPositionKind.EARLIEST.value, StartPositionKind.LATEST.value):
        return StartPosition(StartPositionKind(text.lower()))
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no time zone")
    since_epoch = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    milliseconds = since_epoch // datetime.timedelta(milliseconds=1)
    if not 0 <= milliseconds <= MAX_TIMESTAMP_MS:
        raise ValueError("before 1970, or after 9999")
    return StartPosition(StartPositionKind.TIMESTAMP, milliseconds)


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class RefusedValueError(ValueError):
    """Raised for an invalid value if the message explains more than the allowed values
    (`ValueType.allowed`)."""


class ValueType(Protocol[T_co]):
    """Type of a setting: parses the setting's text and describes the allowed values."""

    @property
    def allowed(self) -> str:
        """Description of the allowed values, for messages."""
        ...

    @property
    def is_list(self) -> bool:
        """True if the setting is a list: a YAML list, or values separated by commas."""
        ...

    def parse(self, texts: tuple[str, ...]) -> T_co:
        """Parse the text values of a setting; exactly one value unless `is_list` is True. Raises
        `ValueError` if a value is not allowed."""
        ...


@dataclass(frozen=True, slots=True)
class SingleValueType(Generic[T]):
    """Type of single values. `read` parses the trimmed text."""

    allowed: str
    read: Callable[[str], T]

    @property
    def is_list(self) -> bool:
        return False

    def parse(self, texts: tuple[str, ...]) -> T:
        (text,) = texts
        return self.read(text.strip())


@dataclass(frozen=True, slots=True)
class PatternListType:
    """Value type for lists of regular expressions."""

    allowed: str = "regular expressions, as a YAML list or separated by commas"

    @property
    def is_list(self) -> bool:
        return True

    def parse(self, texts: tuple[str, ...]) -> NamePatterns:
        return topic_filters.compile_patterns(texts)


@dataclass(frozen=True, slots=True)
class TextListType:
    """Value type for lists of strings."""

    allowed: str = "text values, as a YAML list or separated by commas"

    @property
    def is_list(self) -> bool:
        return True

    def parse(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return texts


@dataclass(frozen=True, slots=True)
class TopicThrottleListType:
    """Value type for lists of topic throttles, `EXPRESSION=RATE`."""

    allowed: str = "EXPRESSION=RATE, such as orders.*=5MB, as a YAML list or separated by commas"

    @property
    def is_list(self) -> bool:
        return True

    def parse(self, texts: tuple[str, ...]) -> tuple[TopicThrottle, ...]:
        return tuple(parse_topic_throttle(text) for text in texts)


def text_type(allowed: str = "text") -> SingleValueType[str]:
    """Create the value type for non-empty text."""
    return SingleValueType(allowed, _parse_non_blank_text)


def boolean_type() -> SingleValueType[bool]:
    """Create the value type for booleans: true or false in any case."""
    return SingleValueType("true or false", _parse_boolean)


def integer_type(
    least: int, most: int | None = None, *, or_minus_one: bool = False
) -> SingleValueType[int]:
    """Create the value type for integers from `least` to `most`, and optionally -1."""
    words = f"whole number from {least}" + (f" to {most}" if most is not None else "")
    words += ", or -1" if or_minus_one else ""

    def parse_value(value: str) -> int:
        number = int(value) if re.fullmatch(r"[+-]?[0-9]{1,19}", value) else None
        fits = number is not None and number >= least and (most is None or number <= most)
        if number is None or not (fits or (or_minus_one and number == -1)):
            raise ValueError(value)
        return number

    return SingleValueType(words, parse_value)


def byte_rate_type() -> SingleValueType[int]:
    """Create the value type for rates in bytes per second (`parse_byte_rate`)."""
    return SingleValueType(RATE_ALLOWED, parse_byte_rate)


def choice_type(*names: str) -> SingleValueType[str]:
    """Create the value type for a choice: one of `names` in any case, returned as spelled in
    `names`."""

    def parse_value(value: str) -> str:
        for name in names:
            if value.lower() == name.lower():
                return name
        raise ValueError(value)

    return SingleValueType(" or ".join(names), parse_value)


def plugin_class_type(*names: str) -> SingleValueType[str]:
    """Create the value type for class names: one of `names`, or a Python class, which is
    imported."""
    shipped = choice_type(*names)

    def parse_value(value: str) -> str:
        try:
            return shipped.read(value)
        except ValueError:
            if not java_class_placeholders.is_python_class_name(value):
                raise
        try:
            java_class_placeholders.import_class(value)
        except LookupError as error:
            raise RefusedValueError(str(error)) from error
        return value

    return SingleValueType(
        f"{shipped.allowed}, or a Python class: package.module:Class", parse_value
    )


def regex_text_type(pattern: str, allowed: str) -> SingleValueType[str]:
    """Create the value type for text that fully matches the regular expression `pattern`."""

    def parse_value(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(value)
        return value

    return SingleValueType(allowed, parse_value)


def start_position_type() -> SingleValueType[StartPosition]:
    """Create the value type for start positions (`parse_start_position`)."""
    return SingleValueType(START_ALLOWED, parse_start_position)


def _parse_non_blank_text(value: str) -> str:
    if not value:
        raise ValueError(value)
    return value


def _parse_boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError(value)
    return value.lower() == "true"
