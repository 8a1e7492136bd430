"""ConfigDef: defines the configuration keys of a plugin, with type, default, validator and
documentation.

    CONFIG = ConfigDef().define("topic", Type.STRING, "Where to write", validator=NonEmptyString())
    topic = CONFIG.parse(props)["topic"]

`parse` raises an error for the first invalid value; use it to start a plugin. `validate_all`
collects all errors of each key; use it for the REST API and for forms. Undefined keys are ignored.
`to_rst` renders the documentation. `embed` adds the keys of one definition to another under a
prefix, for example the keys of a transform under the transform's alias.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, Unpack

from connect_runtime.api import config_types
from connect_runtime.api.config_types import ClassLoader
from connect_runtime.api.config_validators import Lambda, Validator
from connect_runtime.api.errors import ConfigError
from connect_runtime.base import plurals

Type = config_types.Type


class _NoDefault(enum.Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT = _NoDefault.NO_DEFAULT
"""Default value that marks a configuration key as required."""


class Importance(enum.Enum):
    """Importance of a configuration key, from most to least important."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(enum.Enum):
    """Width of the form field for a configuration key."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Recommender(Protocol):
    """Recommends values for a configuration key, depending on the values of other keys.

    `valid_values` and `visible` may raise ConfigError.
    """

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """Return the recommended values of the key; empty if there is no recommendation."""

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Return True if the key applies, given the current values of the other keys."""


class ConfigKeyOptions(TypedDict, total=False):
    """Optional keyword arguments of `ConfigDef.define`. They have the same names and meanings as
    the fields of `ConfigKey`."""

    default: Any
    validator: Validator | None
    importance: Importance
    group: str | None
    order_in_group: int
    width: Width
    display_name: str
    dependents: Sequence[str]
    recommender: Recommender | None
    internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """Definition of a configuration key. The constructor raises ConfigError if the default is
    invalid."""

    name: str
    type: Type
    documentation: str = ""
    default: Any = NO_DEFAULT
    """Default value; `NO_DEFAULT` if the key is required."""
    validator: Validator | None = None
    importance: Importance = Importance.HIGH
    group: str | None = None
    order_in_group: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: Sequence[str] = ()
    """Keys whose recommended values and visibility depend on this key."""
    recommender: Recommender | None = None
    internal: bool = False
    """True if the key is supported but not documented."""

    def __post_init__(self) -> None:
        if not self.display_name:
            object.__setattr__(self, "display_name", self.name)
        if self.has_default:
            default = config_types.parse_value(self.name, self.default, self.type)
            object.__setattr__(self, "default", default)
            self.ensure_valid(default)

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT

    def copy_default(self) -> Any:
        """Return the default value. A list is copied, so that callers may modify it."""
        return list(self.default) if isinstance(self.default, list) else self.default

    def ensure_valid(self, value: Any) -> None:
        if self.validator is not None:
            self.validator.ensure_valid(self.name, value)


@dataclass(slots=True, kw_only=True)
class ConfigValue:
    """Validation result of one configuration key. A plugin's `validate` may append to
    `error_messages`."""

    name: str
    value: Any = None
    recommended_values: list[Any] = field(default_factory=list)
    error_messages: list[str] = field(default_factory=list)
    visible: bool = True


class ConfigDef:
    """A set of configuration keys in order of definition, with their groups in order of first
    use."""

    def __init__(self, base: ConfigDef | None = None) -> None:
        self._keys: dict[str, ConfigKey] = {} if base is None else dict(base.keys)
        self._groups: list[str] = [] if base is None else list(base.groups)

    @property
    def keys(self) -> Mapping[str, ConfigKey]:
        return self._keys

    @property
    def groups(self) -> Sequence[str]:
        return self._groups

    def define(
        self, name: str, value_type: Type, documentation: str, **options: Unpack[ConfigKeyOptions]
    ) -> ConfigDef:
        """Define a key and return this ConfigDef.

        The key is required unless `default` is passed.
        """
        return self.add(
            ConfigKey(name=name, type=value_type, documentation=documentation, **options)
        )

    def add(self, key: ConfigKey) -> ConfigDef:
        """Add a key definition and return this ConfigDef.

        Raises ConfigError if the key is already defined.
        """
        if key.name in self._keys:
            raise ConfigError(f"Configuration {key.name} is defined twice.")
        if key.group is not None and key.group not in self._groups:
            self._groups.append(key.group)
        self._keys[key.name] = key
        return self

    def parse(
        self,
        props: Mapping[str, Any],
        *,
        load: ClassLoader = config_types.find_imported_class,
    ) -> dict[str, Any]:
        """Return the parsed value of every defined key, or the default if the key is not set.

        Raises ConfigError for the first invalid value. An explicit null remains null, even if the
        key has a default.
        """
        undefined = self._find_undefined_dependents()
        if undefined:
            raise ConfigError(
                f"Some configurations are referred to as dependents, but not defined: "
                f"{','.join(undefined)}"
            )
        return {name: self._parse_key(key, props, load) for name, key in self._keys.items()}

    def _parse_key(self, key: ConfigKey, props: Mapping[str, Any], load: ClassLoader) -> Any:
        if key.name in props:
            value = config_types.parse_value(key.name, props[key.name], key.type, load=load)
        elif key.has_default:
            value = key.copy_default()
        else:
            raise ConfigError(_describe_missing_key(key.name))
        key.ensure_valid(value)
        return value

    def validate(
        self,
        props: Mapping[str, Any],
        *,
        load: ClassLoader = config_types.find_imported_class,
    ) -> list[ConfigValue]:
        return list(self.validate_all(props, load=load).values())

    def validate_all(
        self,
        props: Mapping[str, Any],
        *,
        load: ClassLoader = config_types.find_imported_class,
    ) -> dict[str, ConfigValue]:
        """Return value, errors and recommended values of every defined key.

        As in Java, a key is validated once for each key that it depends on, so an error may be
        listed twice.
        """
        values = {name: ConfigValue(name=name) for name in self._keys}
        for name in self._find_undefined_dependents():
            message = f"{name} is referred in the dependents, but not defined."
            values[name] = ConfigValue(name=name, error_messages=[message], visible=False)
        parsed: dict[str, Any] = {}
        roots = self._find_root_keys()
        for name in self._list_keys_depth_first(roots):
            parsed[name] = self._parse_and_validate(self._keys[name], props, (values[name], load))
        for name in self._list_keys_depth_first(roots):
            _apply_recommender(self._keys[name], parsed, values[name])
        return values

    def _parse_and_validate(
        self,
        key: ConfigKey,
        props: Mapping[str, Any],
        into: tuple[ConfigValue, ClassLoader],
    ) -> Any:
        """Parse and validate the value of one key.

        As in Java, a value that cannot be parsed is then validated as null.
        """
        result, load = into
        result.value = None
        if key.name in props:
            try:
                result.value = config_types.parse_value(
                    key.name, props[key.name], key.type, load=load
                )
            except ConfigError as error:
                result.error_messages.append(str(error))
        elif key.has_default:
            result.value = key.copy_default()
        else:
            result.error_messages.append(_describe_missing_key(key.name))
        try:
            key.ensure_valid(result.value)
        except ConfigError as error:
            result.error_messages.append(str(error))
        return result.value

    def _list_keys_depth_first(self, roots: Sequence[str]) -> list[str]:
        """Return each root key followed by its dependents in depth-first order.

        A key that is reachable on several paths is returned once per path. Cycles are not followed.
        """
        order: list[str] = []
        waiting = [(name, frozenset[str]()) for name in reversed(roots)]
        while waiting:
            name, above = waiting.pop()
            if name not in self._keys or name in above:
                continue
            order.append(name)
            inner = above | {name}
            waiting.extend((each, inner) for each in reversed(self._keys[name].dependents))
        return order

    def _find_undefined_dependents(self) -> list[str]:
        named = (each for key in self._keys.values() for each in key.dependents)
        return [each for each in dict.fromkeys(named) if each not in self._keys]

    def _find_root_keys(self) -> list[str]:
        children = {each for key in self._keys.values() for each in key.dependents}
        return [name for name in self._keys if name not in children]


def _describe_missing_key(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'


def _apply_recommender(key: ConfigKey, parsed: Mapping[str, Any], result: ConfigValue) -> None:
    if key.recommender is None:
        return
    try:
        recommended = list(key.recommender.valid_values(key.name, parsed))
        if result.recommended_values:
            recommended = [each for each in recommended if each in result.recommended_values]
        result.recommended_values = recommended
        result.visible = key.recommender.visible(key.name, parsed)
    except ConfigError as error:
        result.error_messages.append(str(error))


def with_prefix(props: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries whose keys start with the prefix, and remove the prefix from their keys.

    For example, `{"a.b": 1}` with the prefix `a.` becomes `{"b": 1}`.
    """
    return {
        name[len(prefix) :]: value
        for name, value in props.items()
        if name.startswith(prefix) and len(name) > len(prefix)
    }


_BYTE_UNITS = (("kibibyte", 1024), ("mebibyte", 1024), ("gibibyte", 1024), ("tebibyte", 1024))
_TIME_UNITS = (("second", 1000), ("minute", 60), ("hour", 60), ("day", 24))


def sort_keys_for_docs(definition: ConfigDef) -> list[ConfigKey]:
    """Sort keys for documentation: by group, order within the group, whether the key is required
    (required keys first), importance and name.

    Keys without a group come first.
    """
    groups = {group: place for place, group in enumerate(definition.groups)}
    importances = list(Importance)

    def get_sort_position(key: ConfigKey) -> tuple[object, ...]:
        group = -1 if key.group is None else groups[key.group]
        importance = importances.index(key.importance)
        return group, key.order_in_group, key.has_default, importance, key.name

    return sorted(definition.keys.values(), key=get_sort_position)


def to_rst(definition: ConfigDef) -> str:
    """Render a ConfigDef as reStructuredText, with a section per group and an entry per key."""
    lines: list[str] = []
    group: str | None = None
    for key in sort_keys_for_docs(definition):
        if key.internal:
            continue
        if key.group is not None and key.group != group:
            lines += [key.group, "^" * len(key.group), ""]
            group = key.group
        lines += _format_key_docs(key)
    return "\n".join(lines)


def _format_key_docs(key: ConfigKey) -> list[str]:
    lines = [f"``{key.name}``"]
    for line in filter(None, key.documentation.split("\n")):
        lines += [f"  {line}", ""]
    lines.append(f"  * Type: {key.type.value.lower()}")
    if key.has_default:
        lines.append(f"  * Default: {format_default(key)}")
    if key.validator is not None:
        lines.append(f"  * Valid Values: {key.validator}")
    lines.append(f"  * Importance: {key.importance.value.lower()}")
    if key.dependents:
        named = ", ".join(f"``{each}``" for each in key.dependents)
        lines.append(f"  * Dependents: {named}")
    return [*lines, ""]


def format_default(key: ConfigKey) -> str:
    """Format the default value of a key for documentation.

    Formats null as `null`, an empty string as `""`, and durations and sizes with a readable unit,
    such as `60000 (1 minute)`.
    """
    text = config_types.format_config_value(key.default, key.type)
    if text is None:
        return "null"
    if not text:
        return '""'
    if isinstance(key.default, int) and not isinstance(key.default, bool):
        if key.name.endswith(".bytes"):
            return text + _format_value_in_largest_unit(key.default, _BYTE_UNITS)
        if key.name.endswith(".ms"):
            return text + _format_value_in_largest_unit(key.default, _TIME_UNITS)
    return text


def _format_value_in_largest_unit(value: int, units: tuple[tuple[str, int], ...]) -> str:
    """Format a value in the largest unit that divides it evenly. Returns "" if no unit does."""
    result = ""
    for unit, factor in units:
        if value == 0 or value % factor:
            break
        value //= factor
        result = f" ({plurals.format_count(value, unit)})"
    return result


def embed(
    target: ConfigDef,
    child: ConfigDef,
    *,
    key_prefix: str,
    group: str,
    first_order: int = 0,
) -> None:
    """Add all keys of a child definition to the definition `target`, each as `<key_prefix><name>`,
    in documentation order.

    The child's validators and recommenders still receive key names without the prefix.
    """
    for order, key in enumerate(sort_keys_for_docs(child), start=first_order):
        target.add(
            dataclasses.replace(
                key,
                name=key_prefix + key.name,
                group=group if key.group is None else f"{group}: {key.group}",
                order_in_group=order,
                validator=_wrap_validator(key_prefix, key.validator),
                dependents=[key_prefix + each for each in key.dependents],
                recommender=None
                if key.recommender is None
                else _EmbeddedRecommender(key_prefix, key),
            )
        )


def _wrap_validator(prefix: str, validator: Validator | None) -> Validator | None:
    if validator is None:
        return None

    def validate_embedded_value(name: str, value: Any) -> None:
        validator.ensure_valid(name.removeprefix(prefix), value)

    return Lambda(validate_embedded_value, str(validator))


class _EmbeddedRecommender:
    """Adapts a recommender to an embedded key by removing the prefix from key names."""

    def __init__(self, prefix: str, key: ConfigKey) -> None:
        assert key.recommender is not None, key.name
        self._prefix = prefix
        self._recommender = key.recommender

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        inner = with_prefix(parsed, self._prefix)
        return self._recommender.valid_values(name.removeprefix(self._prefix), inner)

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        inner = with_prefix(parsed, self._prefix)
        return self._recommender.visible(name.removeprefix(self._prefix), inner)
