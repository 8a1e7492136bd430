"""A worker's properties while they are judged: what they say, and all that is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from connect_runtime.app.settings import problems, properties_file, sensitive

_INVALID = re.compile(r"Invalid value .* for configuration \S+?(?:: (?P<why>.*))?", re.DOTALL)
_TOLD_MIN = 4
"""Shorter texts stand in messages by chance."""


class Account:
    """Of each key the first problem counts; of one that could not be filled in, that alone."""

    def __init__(self, given: properties_file.Given) -> None:
        self._given = given
        self._problems: list[problems.Problem] = list(given.refused)
        self._warnings: list[problems.Problem] = list(given.warned)
        self.values = given.values

    def refuse(self, key: str, text: str, *, allowed: str | None = None) -> None:
        """A mistake; `key` "": of the file as a whole. The text may be one of Java's ConfigDef."""
        if key in self.wrong:
            return
        match = _INVALID.fullmatch(text)
        if match is not None:
            text = match["why"] or "is not allowed"
        if text.startswith("Missing required configuration"):
            text = f"is missing: add {key}=… to the file"
        self._problems.append(
            problems.Problem(
                line=self._line(key),
                key=key,
                text=self._discreet(key, text),
                given=self._shown(key),
                allowed=None if allowed is None else self._discreet(key, allowed),
            )
        )

    def warn(self, key: str, text: str, *, nearest: str | None = None) -> None:
        """What has no effect, or will not do what was meant."""
        self._warnings.append(
            problems.Problem(
                line=self._line(key), key=key, text=self._discreet(key, text), nearest=nearest
            )
        )

    @property
    def wrong(self) -> set[str]:
        """The keys that have a problem."""
        return {each.key for each in self._problems if each.key} | self._given.unfilled

    def finish(self) -> tuple[str, ...]:
        """The warnings as lines, or else raises `SettingsError` with every problem."""
        if self._problems:
            raise problems.SettingsError(self._given.file, self._problems)
        ordered = sorted(dict.fromkeys(self._warnings), key=lambda each: each.line)
        return tuple(each.describe(self._given.file) for each in ordered)

    def _line(self, key: str) -> int:
        pair = self._given.pairs.get(key)
        return 0 if pair is None else pair.line

    def _shown(self, key: str) -> str | None:
        pair = self._given.pairs.get(key)
        if pair is None:
            return None
        return problems.HIDDEN if sensitive.is_sensitive(key) else pair.value

    def _discreet(self, key: str, text: str) -> str:
        """Without any value that is secret, or came through a provider."""
        for each in self._secrets():
            least = 1 if each == key else _TOLD_MIN
            if any(len(part) >= least for part in _told(self.values[each], text)):
                return "what it says is not allowed, and is not shown"
        return text

    def _secrets(self) -> Iterable[str]:
        return (
            each
            for each in self.values
            if each in self._given.filled or sensitive.is_sensitive(each)
        )


def _told(value: str, text: str) -> list[str]:
    """The parts of a value that the text repeats."""
    parts = {value.strip(), *(each.strip() for each in value.split(","))} - {""}
    return [each for each in parts if each.lower() in text.lower()]
