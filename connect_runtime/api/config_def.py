"""ConfigDef: the configuration keys of a plugin, their types, defaults, validators and
documentation.

    CONFIG = ConfigDef().define("topic", Type.STRING, "Where to write", validator=NonEmptyString())
    topic = CONFIG.parse(props)["topic"]

`parse` raises at the first error, for running; `validate_all` collects all errors for each key,
for the REST API and for forms. Undefined keys are no error. `to_rst` writes the documentation;
`embed` puts a definition into another one, such as that of a transform under its alias.
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
"""The default of a key that must be given."""


class Importance(enum.Enum):
    """In the order in which keys are shown."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(enum.Enum):
    """Of the field in a form."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Recommender(Protocol):
    """Advice on one key, given what the others hold; either method may raise ConfigError."""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """What to choose from; empty for no advice."""

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Whether the key means anything now."""


class KeyOptions(TypedDict, total=False):
    """What `ConfigDef.define` takes by name; the fields of `ConfigKey` say what each is."""

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
    """One key. Making one with a default that does not fit raises ConfigError.

    `dependents` are keys whose advice and visibility hang on this one. An `internal` key works
    and is not documented.
    """

    name: str
    type: Type
    documentation: str = ""
    default: Any = NO_DEFAULT
    validator: Validator | None = None
    importance: Importance = Importance.HIGH
    group: str | None = None
    order_in_group: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: Sequence[str] = ()
    recommender: Recommender | None = None
    internal: bool = False

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

    def fresh_default(self) -> Any:
        """The default, a list of its own for everybody."""
        return list(self.default) if isinstance(self.default, list) else self.default

    def ensure_valid(self, value: Any) -> None:
        if self.validator is not None:
            self.validator.ensure_valid(self.name, value)


@dataclass(slots=True, kw_only=True)
class ConfigValue:
    """What was found out about one key; plugins may add to it in their own `validate`."""

    name: str
    value: Any = None
    recommended_values: list[Any] = field(default_factory=list)
    error_messages: list[str] = field(default_factory=list)
    visible: bool = True


class ConfigDef:
    """Keys in order of their definition, and their groups in order of appearance."""

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
        self, name: str, of: Type, documentation: str, **options: Unpack[KeyOptions]
    ) -> ConfigDef:
        """Add a key and return this definition; without a `default` it must be given."""
        return self.add(ConfigKey(name=name, type=of, documentation=documentation, **options))

    def add(self, key: ConfigKey) -> ConfigDef:
        """Raises ConfigError if its name is taken."""
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
        """Every defined key with its value, given or default; ConfigError for the first wrong one.

        A key that is given as null is null, whatever its default.
        """
        undefined = self._undefined_dependents()
        if undefined:
            raise ConfigError(
                f"Some configurations are referred to as dependents, but not defined: "
                f"{','.join(undefined)}"
            )
        return {name: self._parse_one(key, props, load) for name, key in self._keys.items()}

    def _parse_one(self, key: ConfigKey, props: Mapping[str, Any], load: ClassLoader) -> Any:
        if key.name in props:
            value = config_types.parse_value(key.name, props[key.name], key.type, load=load)
        elif key.has_default:
            value = key.fresh_default()
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
        """Every defined key with value, errors and advice.

        As in Java, a key is looked at once for each key that it depends on, so that an error may
        stand there twice.
        """
        values = {name: ConfigValue(name=name) for name in self._keys}
        for name in self._undefined_dependents():
            message = f"{name} is referred in the dependents, but not defined."
            values[name] = ConfigValue(name=name, error_messages=[message], visible=False)
        parsed: dict[str, Any] = {}
        roots = self._without_parent()
        for name in self._depth_first(roots):
            parsed[name] = self._try_to_parse(self._keys[name], props, (values[name], load))
        for name in self._depth_first(roots):
            _apply_recommender(self._keys[name], parsed, values[name])
        return values

    def _try_to_parse(
        self,
        key: ConfigKey,
        props: Mapping[str, Any],
        into: tuple[ConfigValue, ClassLoader],
    ) -> Any:
        """Even what could not be parsed is shown to the validator: Java counts that as well."""
        found, load = into
        found.value = None
        if key.name in props:
            try:
                found.value = config_types.parse_value(
                    key.name, props[key.name], key.type, load=load
                )
            except ConfigError as error:
                found.error_messages.append(str(error))
        elif key.has_default:
            found.value = key.fresh_default()
        else:
            found.error_messages.append(_describe_missing_key(key.name))
        try:
            key.ensure_valid(found.value)
        except ConfigError as error:
            found.error_messages.append(str(error))
        return found.value

    def _depth_first(self, roots: Sequence[str]) -> list[str]:
        """Each root and what depends on it, as often as there are ways to it; no way in circles."""
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

    def _undefined_dependents(self) -> list[str]:
        named = (each for key in self._keys.values() for each in key.dependents)
        return [each for each in dict.fromkeys(named) if each not in self._keys]

    def _without_parent(self) -> list[str]:
        children = {each for key in self._keys.values() for each in key.dependents}
        return [name for name in self._keys if name not in children]


def _describe_missing_key(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'


def _apply_recommender(key: ConfigKey, parsed: Mapping[str, Any], found: ConfigValue) -> None:
    if key.recommender is None:
        return
    try:
        advised = list(key.recommender.valid_values(key.name, parsed))
        if found.recommended_values:
            advised = [each for each in advised if each in found.recommended_values]
        found.recommended_values = advised
        found.visible = key.recommender.visible(key.name, parsed)
    except ConfigError as error:
        found.error_messages.append(str(error))


def with_prefix(props: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The entries under a prefix, without it: `{"a.b": 1}` under `a.` is `{"b": 1}`."""
    return {
        name[len(prefix) :]: value
        for name, value in props.items()
        if name.startswith(prefix) and len(name) > len(prefix)
    }


_BYTE_UNITS = (("kibibyte", 1024), ("mebibyte", 1024), ("gibibyte", 1024), ("tebibyte", 1024))
_TIME_UNITS = (("second", 1000), ("minute", 60), ("hour", 60), ("day", 24))


def sort_keys_for_docs(definition: ConfigDef) -> list[ConfigKey]:
    """By group (none first), order in it, those without a default first, importance, name."""
    groups = {group: place for place, group in enumerate(definition.groups)}
    importances = list(Importance)

    def place(key: ConfigKey) -> tuple[object, ...]:
        group = -1 if key.group is None else groups[key.group]
        importance = importances.index(key.importance)
        return group, key.order_in_group, key.has_default, importance, key.name

    return sorted(definition.keys.values(), key=place)


def to_rst(definition: ConfigDef) -> str:
    """reStructuredText, one section for each group, one entry for each key."""
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
    """The default for people: `null`, `""`, and `60000 (1 minute)` for times and sizes."""
    text = config_types.convert_to_text(key.default, key.type)
    if text is None:
        return "null"
    if not text:
        return '""'
    if isinstance(key.default, int) and not isinstance(key.default, bool):
        if key.name.endswith(".bytes"):
            return text + _format_in_units(key.default, _BYTE_UNITS)
        if key.name.endswith(".ms"):
            return text + _format_in_units(key.default, _TIME_UNITS)
    return text


def _format_in_units(value: int, units: tuple[tuple[str, int], ...]) -> str:
    """The largest unit that divides it; nothing if none does."""
    found = ""
    for unit, factor in units:
        if value == 0 or value % factor:
            break
        value //= factor
        found = f" ({plurals.format_count(value, unit)})"
    return found


def embed(
    into: ConfigDef,
    child: ConfigDef,
    *,
    key_prefix: str,
    group: str,
    first_order: int = 0,
) -> None:
    """Define the child's keys as `<key_prefix><name>`, in the order of its documentation.

    Validators and recommenders go on seeing the child's own names.
    """
    for order, key in enumerate(sort_keys_for_docs(child), start=first_order):
        into.add(
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

    def check(name: str, value: Any) -> None:
        validator.ensure_valid(name.removeprefix(prefix), value)

    return Lambda(check, str(validator))


class _EmbeddedRecommender:
    """A recommender that is asked about prefixed names and asks about plain ones."""

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
