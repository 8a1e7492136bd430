"""ConfigDef: which configuration keys a plugin knows, what they may hold, how they are shown.

    CONFIG = ConfigDef().define("topic", Type.STRING, "Where to write", validator=NonEmptyString())
    topic = CONFIG.parse(props)["topic"]

`parse` raises at the first error, for running; `validate_all` collects all of them per key, for
the REST API and for forms. Keys that are not defined are nobody's error.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, Unpack

from connect_runtime.api import config_types, config_validators, errors

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
    validator: config_validators.Validator | None
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
    validator: config_validators.Validator | None = None
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
            default = config_types.parse(self.name, self.default, self.type)
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
            raise errors.ConfigError(f"Configuration {key.name} is defined twice.")
        if key.group is not None and key.group not in self._groups:
            self._groups.append(key.group)
        self._keys[key.name] = key
        return self

    def parse(
        self,
        props: Mapping[str, Any],
        *,
        load: config_types.LoadClass = config_types.imported_class,
    ) -> dict[str, Any]:
        """Every defined key with its value, given or default; ConfigError for the first wrong one.

        A key that is given as null is null, whatever its default.
        """
        undefined = self._undefined_dependents()
        if undefined:
            raise errors.ConfigError(
                f"Some configurations are referred to as dependents, but not defined: "
                f"{','.join(undefined)}"
            )
        return {name: self._parse_one(key, props, load) for name, key in self._keys.items()}

    def _parse_one(
        self, key: ConfigKey, props: Mapping[str, Any], load: config_types.LoadClass
    ) -> Any:
        if key.name in props:
            value = config_types.parse(key.name, props[key.name], key.type, load=load)
        elif key.has_default:
            value = key.fresh_default()
        else:
            raise errors.ConfigError(_missing(key.name))
        key.ensure_valid(value)
        return value

    def validate(
        self,
        props: Mapping[str, Any],
        *,
        load: config_types.LoadClass = config_types.imported_class,
    ) -> list[ConfigValue]:
        return list(self.validate_all(props, load=load).values())

    def validate_all(
        self,
        props: Mapping[str, Any],
        *,
        load: config_types.LoadClass = config_types.imported_class,
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
            _advise(self._keys[name], parsed, values[name])
        return values

    def _try_to_parse(
        self,
        key: ConfigKey,
        props: Mapping[str, Any],
        into: tuple[ConfigValue, config_types.LoadClass],
    ) -> Any:
        """Even what could not be parsed is shown to the validator: Java counts that as well."""
        found, load = into
        found.value = None
        if key.name in props:
            try:
                found.value = config_types.parse(key.name, props[key.name], key.type, load=load)
            except errors.ConfigError as error:
                found.error_messages.append(str(error))
        elif key.has_default:
            found.value = key.fresh_default()
        else:
            found.error_messages.append(_missing(key.name))
        try:
            key.ensure_valid(found.value)
        except errors.ConfigError as error:
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


def _missing(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'


def _advise(key: ConfigKey, parsed: Mapping[str, Any], found: ConfigValue) -> None:
    if key.recommender is None:
        return
    try:
        advised = list(key.recommender.valid_values(key.name, parsed))
        if found.recommended_values:
            advised = [each for each in advised if each in found.recommended_values]
        found.recommended_values = advised
        found.visible = key.recommender.visible(key.name, parsed)
    except errors.ConfigError as error:
        found.error_messages.append(str(error))


def with_prefix(props: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The entries under a prefix, without it: `{"a.b": 1}` under `a.` is `{"b": 1}`."""
    return {
        name[len(prefix) :]: value
        for name, value in props.items()
        if name.startswith(prefix) and len(name) > len(prefix)
    }
