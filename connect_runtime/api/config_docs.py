"""The documentation of a configuration definition, as text."""

from __future__ import annotations

from connect_runtime.api import config_def, config_types
from connect_runtime.base import amounts

_BYTES = (("kibibyte", 1024), ("mebibyte", 1024), ("gibibyte", 1024), ("tebibyte", 1024))
_TIMES = (("second", 1000), ("minute", 60), ("hour", 60), ("day", 24))


def in_order(definition: config_def.ConfigDef) -> list[config_def.ConfigKey]:
    """By group (none first), order in it, those without a default first, importance, name."""
    groups = {group: place for place, group in enumerate(definition.groups)}
    importances = list(config_def.Importance)

    def place(key: config_def.ConfigKey) -> tuple[object, ...]:
        group = -1 if key.group is None else groups[key.group]
        importance = importances.index(key.importance)
        return group, key.order_in_group, key.has_default, importance, key.name

    return sorted(definition.keys.values(), key=place)


def to_rst(definition: config_def.ConfigDef) -> str:
    """reStructuredText, one section for each group, one entry for each key."""
    lines: list[str] = []
    group: str | None = None
    for key in in_order(definition):
        if key.internal:
            continue
        if key.group is not None and key.group != group:
            lines += [key.group, "^" * len(key.group), ""]
            group = key.group
        lines += _entry(key)
    return "\n".join(lines)


def _entry(key: config_def.ConfigKey) -> list[str]:
    lines = [f"``{key.name}``"]
    for line in filter(None, key.documentation.split("\n")):
        lines += [f"  {line}", ""]
    lines.append(f"  * Type: {key.type.value.lower()}")
    if key.has_default:
        lines.append(f"  * Default: {default_text(key)}")
    if key.validator is not None:
        lines.append(f"  * Valid Values: {key.validator}")
    lines.append(f"  * Importance: {key.importance.value.lower()}")
    if key.dependents:
        named = ", ".join(f"``{each}``" for each in key.dependents)
        lines.append(f"  * Dependents: {named}")
    return [*lines, ""]


def default_text(key: config_def.ConfigKey) -> str:
    """The default for people: `null`, `""`, and `60000 (1 minute)` for times and sizes."""
    text = config_types.to_text(key.default, key.type)
    if text is None:
        return "null"
    if not text:
        return '""'
    if isinstance(key.default, int) and not isinstance(key.default, bool):
        if key.name.endswith(".bytes"):
            return text + _in_units(key.default, _BYTES)
        if key.name.endswith(".ms"):
            return text + _in_units(key.default, _TIMES)
    return text


def _in_units(value: int, units: tuple[tuple[str, int], ...]) -> str:
    """The largest unit that divides it; nothing if none does."""
    found = ""
    for unit, factor in units:
        if value == 0 or value % factor:
            break
        value //= factor
        found = f" ({amounts.counted(value, unit)})"
    return found
