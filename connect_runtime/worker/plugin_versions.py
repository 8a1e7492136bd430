"""Parses plugin version ranges (KIP-891) such as `9`, `[4,5)` and `(,3],[4.1,)`.

A bare version matches only that version. Java: PluginUtils.connectorVersionRequirement, with
Maven's version ranges and version order.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from connect_runtime.api.errors import ConfigError

LATEST = "latest"
_INTERVAL_PATTERN = re.compile(r"([\[(])([^\[\]()]*)([\])])(?:,|$)")
_TOKEN_PATTERN = re.compile(r"[0-9]+|[a-z]+")
_PRERELEASE_QUALIFIERS = ("alpha", "beta", "milestone", "rc", "snapshot")
_QUALIFIER_ALIASES = {"a": "alpha", "b": "beta", "m": "milestone", "cr": "rc"}
_RELEASE_KEY = (1, 0, "")
_VersionKey = tuple[int, int, str]
"""Sort key of a version token, a part of a version string: rank, then the qualifier's position or
the number of digits, then the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _VersionInterval:
    """Interval of versions. `low` or `high` is None if the interval is unbounded on that side."""

    low: str | None
    low_included: bool
    high: str | None
    high_included: bool

    def contains(self, version: str) -> bool:
        after = self.low is None or _is_version_ordered_before(
            self.low, version, included=self.low_included
        )
        return after and (
            self.high is None
            or _is_version_ordered_before(version, self.high, included=self.high_included)
        )

    def __str__(self) -> str:
        opening, closing = "[" if self.low_included else "(", "]" if self.high_included else ")"
        return f"{opening}{self.low or ''},{self.high or ''}{closing}"


def explain_version_mismatch(
    plugin: str, requested: str | None, available: Sequence[str]
) -> str | None:
    """Return Java's error message if no available version is in the requested range; otherwise
    None.

    `plugin` is the plugin's class name. Raises `ConfigError` if `requested` is not a valid version
    or range.
    """
    if requested is None or requested.strip() == LATEST:
        return None
    intervals = _parse_version_range(requested.strip())
    if any(each.contains(version) for each in intervals for version in available):
        return None
    return (
        f"Plugin {plugin} not found that matches the version range"
        f" {','.join(map(str, intervals))}, available versions: [{', '.join(available)}]"
    )


def _parse_version_range(text: str) -> list[_VersionInterval]:
    if not text.startswith(("[", "(")):
        text = f"[{text}]"
    found, place = [], 0
    while place < len(text):
        part = _INTERVAL_PATTERN.match(text, place)
        if part is None:
            raise ConfigError(
                f"Unbounded range: {text}: use a version or range such as 4.3.1, [4,5) or [4,)"
            )
        found.append(_parse_version_interval(text, part))
        place = part.end()
    return found


def _parse_version_interval(text: str, part: re.Match[str]) -> _VersionInterval:
    opening, inner, closing = part.groups()
    low_included, high_included = opening == "[", closing == "]"
    ends = [each.strip() for each in inner.split(",")]
    if len(ends) > 2:
        raise ConfigError(
            f"Range {text} has more than two bounds: write a range such as [4,5) or [4,)"
        )
    if len(ends) == 1:
        if not (low_included and high_included):
            raise ConfigError(
                f"Single version must be surrounded by []: {text}: write [{ends[0]}], or a range"
            )
        low: str | None = ends[0]
        high = low
    else:
        low, high = (each or None for each in ends)
    if low is not None and high is not None and _compare_versions(low, high) > 0:
        raise ConfigError(f"Range {text} defies version ordering: put the lower version first")
    return _VersionInterval(
        low=low, low_included=low_included, high=high, high_included=high_included
    )


def _is_version_ordered_before(first: str, second: str, *, included: bool) -> bool:
    order = _compare_versions(first, second)
    return order < 0 or (order == 0 and included)


def _compare_versions(first: str, second: str) -> int:
    """Compare two versions. Return a negative number if `first` is lower, 0 if both are equal, a
    positive number if `first` is higher."""
    pairs = itertools.zip_longest(
        _build_version_sort_key(first), _build_version_sort_key(second), fillvalue=_RELEASE_KEY
    )
    for one, other in pairs:
        if one != other:
            return -1 if one < other else 1
    return 0


def _build_version_sort_key(version: str) -> list[_VersionKey]:
    return [_build_version_token_sort_key(each) for each in _TOKEN_PATTERN.findall(version.lower())]


def _build_version_token_sort_key(token: str) -> _VersionKey:
    """Build the sort key of a token of a version string. Zero and all release qualifiers have the
    same key."""
    if token.isdigit():
        digits = token.lstrip(
            "0"
        )  # compared as text, because Python limits conversions to 4,300 digits
        return (4, len(digits), digits) if digits else _RELEASE_KEY
    word = _QUALIFIER_ALIASES.get(token, token)
    if word in _PRERELEASE_QUALIFIERS:
        return 0, _PRERELEASE_QUALIFIERS.index(word), ""
    if word in ("final", "ga", "release"):
        return _RELEASE_KEY
    return (2, 0, "") if word == "sp" else (3, 0, word)
