"""Validators: constraints on configuration values beyond their type.

`ensure_valid` raises ConfigError (`build_invalid_value_error` builds the usual message). `str()`
describes the allowed values. Error messages and descriptions are the same as in Java's ConfigDef.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from connect_runtime.api import config_types
from connect_runtime.api.errors import ConfigError


class Validator(Protocol):
    """Checks the value of a configuration key."""

    def ensure_valid(self, name: str, value: Any) -> None:
        """Raise ConfigError if the parsed `value` is not allowed.

        `value` is None if the key is not set or could not be parsed.
        """


class Range:
    """Accepts numbers from `at_least` to `at_most`, both inclusive and optional. Rejects null."""

    def __init__(self, *, at_least: float | None = None, at_most: float | None = None) -> None:
        self._least = at_least
        self._most = at_most

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None:
            raise config_types.build_invalid_value_error(name, None, "Value must be non-null")
        if self._least is not None and value < self._least:
            raise config_types.build_invalid_value_error(
                name, value, f"Value must be at least {self._least}"
            )
        if self._most is not None and value > self._most:
            raise config_types.build_invalid_value_error(
                name, value, f"Value must be no more than {self._most}"
            )

    def __str__(self) -> str:
        least = "" if self._least is None else f"{self._least},"
        most = "" if self._most is None else f",{self._most}"
        return f"[{least}...{most}]"


class ValidString:
    """Accepts only the listed strings."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def ensure_valid(self, name: str, value: Any) -> None:
        if value not in self.allowed:
            raise config_types.build_invalid_value_error(
                name, value, f"String must be one of: {', '.join(self.allowed)}"
            )

    def __str__(self) -> str:
        return f"[{', '.join(self.allowed)}]"


class CaseInsensitiveValidString:
    """Accepts only the listed strings, ignoring case."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = tuple(each.upper() for each in allowed)

    def ensure_valid(self, name: str, value: Any) -> None:
        if not isinstance(value, str) or value.upper() not in self._allowed:
            raise config_types.build_invalid_value_error(
                name, value, f"String must be one of (case insensitive): {', '.join(self._allowed)}"
            )

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(self._allowed)}]"


class ValidList:
    """Accepts lists without empty or duplicate items. Optionally restricts items to the listed
    values (KIP-1161)."""

    def __init__(
        self, *allowed: str, empty_allowed: bool = True, null_allowed: bool = False
    ) -> None:
        self._allowed = ValidString(*allowed)
        self._empty_allowed = empty_allowed
        self._null_allowed = null_allowed

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None:
            if self._null_allowed:
                return
            raise ConfigError(f"Configuration '{name}' values must not be null.")
        if not value and not self._empty_allowed:
            allowed = str(self._allowed) if self._allowed.allowed else "any non-empty value"
            raise ConfigError(
                f"Configuration '{name}' must not be empty. Valid values include: {allowed}"
            )
        if len(set(value)) != len(value):
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.")
        for each in value:
            if each == "":
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if self._allowed.allowed:
                self._allowed.ensure_valid(name, each)

    def __str__(self) -> str:
        return str(self._allowed) if self._allowed.allowed else ""


class ListSize:
    """Accepts lists of at most `at_most` items."""

    def __init__(self, at_most: int) -> None:
        self._most = at_most

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is not None and len(value) > self._most:
            raise config_types.build_invalid_value_error(
                name, value, f"exceeds maximum list size of [{self._most}]."
            )

    def __str__(self) -> str:
        return f"List containing maximum of {self._most} elements"


class NonNull:
    """Rejects null values."""

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None:
            raise config_types.build_invalid_value_error(name, None, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


class NonEmptyString:
    """Rejects empty strings. Accepts null."""

    def ensure_valid(self, name: str, value: Any) -> None:
        if value == "":
            raise config_types.build_invalid_value_error(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class NonEmptyStringWithoutControlChars:
    """Rejects empty strings and strings with control characters. Accepts null. Used for connector
    names."""

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None:
            return
        if not value:
            raise config_types.build_invalid_value_error(name, value, "String may not be empty")
        found = [ord(each) for each in value if ord(each) < 32 or 127 <= ord(each) < 160]
        if found:
            raise config_types.build_invalid_value_error(
                name,
                value,
                "String may not contain control sequences but had the following ASCII chars: "
                + ", ".join(map(str, found)),
            )

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


class Lambda:
    """Validates values with a function. `description` describes the allowed values."""

    def __init__(self, check: Callable[[str, Any], None], description: str) -> None:
        self._check = check
        self._described = description

    def ensure_valid(self, name: str, value: Any) -> None:
        self._check(name, value)

    def __str__(self) -> str:
        return self._described


class Composite:
    """Applies several validators in order."""

    def __init__(self, *validators: Validator) -> None:
        self._validators: Sequence[Validator] = validators

    def ensure_valid(self, name: str, value: Any) -> None:
        for each in self._validators:
            each.ensure_valid(name, value)

    def __str__(self) -> str:
        return ", ".join(map(str, self._validators))
