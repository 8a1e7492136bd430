"""Reads typed values from a client's properties and collects every error.

Shared by the readers of TLS, SASL and OAuth settings, so that a user sees all errors at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingError:
    """One thing that is wrong: the key, what is wrong with it, and what is allowed or to do."""

    key: str
    problem: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}; {self.allowed}"


class PropertyReader:
    """Values without the space around them; `errors` in the order in which they were noted."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = {key: str(value).strip() for key, value in properties.items()}
        self.errors: list[SettingError] = []

    def get(self, key: str, default: str = "") -> str:
        """An empty value counts as none."""
        return self.properties.get(key) or default

    def error(self, key: str, problem: str, allowed: str) -> None:
        self.errors.append(SettingError(key=key, problem=problem, allowed=allowed))

    def whole(self, key: str, default: int, *, least: int, most: int) -> int:
        """A whole number within bounds, else an error is noted and the default returned."""
        text = self.get(key)
        if not text:
            return default
        try:
            found = int(text)
        except ValueError:
            found = least - 1
        if least <= found <= most:
            return found
        self.error(key, f"{text} is not allowed", f"a whole number from {least} to {most}")
        return default

    def fraction(self, key: str, default: float, *, least: float, most: float) -> float:
        """A decimal number within bounds, else an error is noted and the default returned."""
        text = self.get(key)
        if not text:
            return default
        try:
            found = float(text)
        except ValueError:
            found = least - 1
        if least <= found <= most:
            return found
        self.error(key, f"{text} is not allowed", f"a number from {least:g} to {most:g}")
        return default

    def boolean(self, key: str) -> bool:
        """False when it is not set; true and false in any case, as Java reads them."""
        text = self.get(key, "false").lower()
        if text not in {"true", "false"}:
            self.error(key, f"{text} is not allowed", "true or false")
        return text == "true"


def format_choices(choices: tuple[str, ...]) -> str:
    return f"one of {', '.join(choices)}"
