"""Reads typed values from client properties and collects all errors.

The readers of TLS, SASL and OAuth settings share one `PropertyReader`, so that users see all errors
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidSettingError:
    """An invalid setting: its key, the problem, and the allowed values or the remedy."""

    key: str
    problem: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}; {self.allowed}"


class PropertyReader:
    """Reads typed client properties and collects errors. Values are stripped of whitespace;
    `errors` are in order of detection."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = {key: str(value).strip() for key, value in properties.items()}
        self.errors: list[InvalidSettingError] = []

    def get(self, key: str, default: str = "") -> str:
        """Return the value of a property, or the default. An empty value counts as missing."""
        return self.properties.get(key) or default

    def add_error(self, key: str, problem: str, allowed: str) -> None:
        """Record an error for an invalid property, with the allowed values or the remedy."""
        self.errors.append(InvalidSettingError(key=key, problem=problem, allowed=allowed))

    def get_integer(self, key: str, default: int, *, minimum: int, maximum: int) -> int:
        """Return an integer property. If it is invalid or out of bounds, record an error and return
        the default."""
        text = self.get(key)
        if not text:
            return default
        try:
            found = int(text)
        except ValueError:
            found = minimum - 1
        if minimum <= found <= maximum:
            return found
        self.add_error(key, f"{text} is not allowed", f"a whole number from {minimum} to {maximum}")
        return default

    def get_decimal(self, key: str, default: float, *, minimum: float, maximum: float) -> float:
        """Return a decimal property. If it is invalid or out of bounds, record an error and return
        the default."""
        text = self.get(key)
        if not text:
            return default
        try:
            found = float(text)
        except ValueError:
            found = minimum - 1
        if minimum <= found <= maximum:
            return found
        self.add_error(key, f"{text} is not allowed", f"a number from {minimum:g} to {maximum:g}")
        return default

    def get_boolean(self, key: str) -> bool:
        """Return a boolean property; False if it is missing. As in Java, letter case is ignored."""
        text = self.get(key, "false").lower()
        if text not in {"true", "false"}:
            self.add_error(key, f"{text} is not allowed", "true or false")
        return text == "true"


def format_choices(choices: tuple[str, ...]) -> str:
    """Format the allowed values of a setting as text for an error message."""
    return f"one of {', '.join(choices)}"
