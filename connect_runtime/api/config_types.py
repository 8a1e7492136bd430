"""Types of configuration values. Parses configuration strings into typed values and formats typed
values as strings. Error messages are the same as in Java."""

from __future__ import annotations

import enum
import importlib
import math
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from connect_runtime.api.errors import ConfigError

HIDDEN_PASSWORD = "[hidden]"  # noqa: S105  # shown instead of a password
ClassLoader = Callable[[str], type]
"""Function that loads the class named in a configuration value of type CLASS. Raises LookupError if
the class is not found."""

JAVA_BLANKS = "".join(map(chr, range(33)))
"""Characters that Java's `String.trim` removes: control characters and the space, but no other
Unicode whitespace."""

_ITEM_BLANKS = " \t\n\r\f\v"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]++(\.[0-9]*+)?|\.[0-9]++)([eE][+-]?[0-9]++)?)[dDfF]?"
)


class Type(enum.Enum):
    """Type of a configuration key. Each member's value is the type name used by Connect's REST
    API."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105  # a type's name

    def __str__(self) -> str:
        return self.value


_INTEGER_TYPES = {
    Type.SHORT: (16, "16-bit integer (short)"),
    Type.INT: (32, "32-bit integer"),
    Type.LONG: (64, "64-bit integer (long)"),
}


class Password:
    """A secret. `value` is the plain text; `repr` and `str` mask it."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return self.value == other.value if isinstance(other, Password) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return HIDDEN_PASSWORD


def build_invalid_value_error(name: str, value: object, reason: str = "") -> ConfigError:
    """Build the ConfigError that a validator raises for an invalid value."""
    ending = f": {reason}" if reason else ""
    return ConfigError(
        f"Invalid value {format_value_for_message(value)} for configuration {name}{ending}"
    )


def format_value_for_message(value: object) -> str:
    """Format a value as Java does in its error messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(format_value_for_message(each) for each in value)}]"
    return f"class {get_class_name(value)}" if isinstance(value, type) else str(value)


def get_class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def load_class(name: str) -> type:
    """Import the class named `package.module.Class` or `package.module:Class`.

    Use this only with trusted names (from the operator or from code), because importing a module
    runs its code. Raises LookupError if the class does not exist or if the import raises an
    exception, including `SystemExit` but not `KeyboardInterrupt`.
    """
    module_name, path = _split_class_name(name)
    try:
        result: Any = importlib.import_module(module_name)
        for part in path.split("."):
            result = getattr(result, part)
    except KeyboardInterrupt:
        raise
    except (ImportError, AttributeError, ValueError) as error:
        raise LookupError(f"class {name} does not exist") from error
    except BaseException as error:  # the module's code may raise anything
        cause = f"{type(error).__name__}: {error}"
        raise LookupError(f"{name} cannot be imported: {cause}") from error
    return _ensure_is_class(result, name)


def find_imported_class(name: str) -> type:
    """Return the class with this name if its module is already imported.

    Never imports a module or runs code. Therefore, it is safe for untrusted names, such as class
    names in connector configurations that REST clients submit. Raises LookupError if the class is
    not found.
    """
    module_name, path = _split_class_name(name)
    result: Any = sys.modules.get(module_name)
    if result is None:
        raise LookupError(
            f"class {name} is not an installed plugin: add its module to a plugin.path directory,"
            " or declare it as an entry point in the group connect_runtime.plugins, and restart the"
            " worker"
        )
    for part in path.split("."):
        try:
            result = vars(result)[part]  # not getattr: a module's __getattr__ may import others
        except (TypeError, KeyError):
            raise LookupError(f"class {name} does not exist") from None
    return _ensure_is_class(result, name)


def _split_class_name(name: str) -> tuple[str, str]:
    """Split a class name into the module name and the class's qualified name in the module."""
    module, colon, path = name.partition(":")
    if not colon:
        module, _, path = name.rpartition(".")
    return module, path


def _ensure_is_class(result: object, name: str) -> type:
    if isinstance(result, type):
        return result
    raise LookupError(f"{name} is not a class")


def parse_value(
    name: str, value: object, value_type: Type, *, load: ClassLoader = find_imported_class
) -> Any:
    """Parse a configuration value as the given type; None remains None. Raises ConfigError.

    A value that is already an instance of the matching Python class is returned unchanged. Leading
    and trailing blanks of a string are removed first.
    """
    if value is None:
        return None
    text = value.strip(JAVA_BLANKS) if isinstance(value, str) else None
    match value_type:
        case Type.BOOLEAN:
            return _parse_boolean(name, value, text)
        case Type.SHORT | Type.INT | Type.LONG:
            return _parse_integer(name, value, value_type)
        case Type.DOUBLE:
            return _parse_double(name, value, text)
        case Type.LIST:
            return _parse_list(name, value, text)
        case Type.CLASS:
            return _parse_class(name, value, load)
        case Type.STRING:
            return _parse_string(name, value, text)
        case Type.PASSWORD:
            return (
                value
                if isinstance(value, Password)
                else Password(_parse_string(name, HIDDEN_PASSWORD, text))
            )


def _describe_type(value: object) -> str:
    return type(value).__name__


def _parse_string(name: str, value: object, text: str | None) -> str:
    if text is None:
        raise build_invalid_value_error(
            name, value, f"Expected value to be a string, but it was a {_describe_type(value)}"
        )
    return text


def _parse_boolean(name: str, value: object, text: str | None) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "false": False}.get((text or "").lower())
    if known is None:
        raise build_invalid_value_error(name, value, "Expected value to be either true or false")
    return known


def _parse_integer(name: str, value: object, of: Type) -> int:
    bits, described = _INTEGER_TYPES[of]
    if isinstance(value, str):
        text = value.strip(JAVA_BLANKS)
        number = int(text) if _INTEGER.fullmatch(text) and len(text) <= 32 else None
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        raise build_invalid_value_error(
            name, value, f"Expected value to be a {described}, but it was a {_describe_type(value)}"
        )
    if number is None or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise build_invalid_value_error(name, value, f"Not a number of type {of}")
    return number


def _parse_double(name: str, value: object, text: str | None) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if text is None:
        raise build_invalid_value_error(
            name, value, f"Expected value to be a double, but it was a {_describe_type(value)}"
        )
    if not _NUMBER.fullmatch(text):
        raise build_invalid_value_error(name, value, f"Not a number of type {Type.DOUBLE}")
    return math.nan if "NaN" in text else float(text.rstrip("dDfF"))


def _parse_list(name: str, value: object, text: str | None) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    if text is None:
        raise build_invalid_value_error(name, value, "Expected a comma separated list.")
    return [each.strip(_ITEM_BLANKS) for each in text.split(",")] if text else []


def _parse_class(name: str, value: object, load: ClassLoader) -> type:
    if isinstance(value, type):
        return value
    if not isinstance(value, str):
        raise build_invalid_value_error(name, value, "Expected a Class instance or class name.")
    try:
        return load(value.strip(JAVA_BLANKS))
    except LookupError as error:
        raise build_invalid_value_error(
            name, value, f"Class {value} could not be found."
        ) from error


def format_config_value(value: Any, value_type: Type | None) -> str | None:
    """Format a parsed value as a configuration string. Passwords are masked; None remains None."""
    if value is None:
        return None
    if value_type is Type.LIST and isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(format_value_for_message(each) for each in value)
    if isinstance(value, type):
        return get_class_name(value)
    return format_value_for_message(value)
