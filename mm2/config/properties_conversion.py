"""Converts `clusters.yaml` to MirrorMaker 2's flat properties, and properties to YAML.

Worker and connector configurations are always derived from flat properties (`dedicated_mode`).
Values are copied with their placeholders, so that no secret is resolved. Settings that the other
format cannot express are reported (`InexpressibleKey`). Relative paths become absolute, because the
two formats resolve them against different directories.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.config import config_providers, java_properties, yaml_parser
from connect_runtime.config.config_providers import ProviderKind
from connect_runtime.config.yaml_parser import (
    YamlEntry,
    YamlList,
    YamlNode,
    YamlScalar,
    YamlSection,
)
from mm2.config import (
    client_config_keys,
    dedicated_mode,
    endpoints_section,
    flow_config_keys,
    flows_section,
    java_class_placeholders,
    mirror_connector_config_keys,
    mm2_only_keys,
    mm2_property_keys,
)
from mm2.config.mm2_properties import TranslatedProperties
from mm2.config.mm2_settings import ClientType, ClusterSettings, Mm2Settings
from mm2.config.yaml_section_reader import ConfigOption

_LOCATION = ".location"
_DRILL_REPORT_KEY = "mm2.drill.report"
_CLIENT_PREFIXES = tuple(role.prefix for role in ClientType)
_RESET_KEY = flows_section.CONSUMER_PREFIX + mm2_property_keys.AUTO_OFFSET_RESET
_PROVIDER_NAMES = {kind: name for name, kind in config_providers.KIND_BY_JAVA_CLASS.items()}
_DEFAULTS_SECTION = "defaults"
_RESTRICTION_INEXPRESSIBLE = (
    "a YAML file has no equivalent of allowed.paths and allowlist.pattern: remove the restriction, "
    "or keep the properties file"
)
_CHOICE_OPTIONS: dict[str, ConfigOption[str]] = {
    each.name: each
    for each in (
        *flow_config_keys.CLASS_OPTIONS,
        flow_config_keys.USE_DEFAULTS_FROM,
        *(each.option for each in mm2_only_keys.ALL if each.is_choice),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatProperty:
    """A property with the line and key path of the YAML entry that sets it."""

    key: str
    value: str = field(repr=False)
    line: int
    path: str
    """Key path in the YAML file."""
    is_default: bool = False
    """True if the property is a default of mm2 that is not set in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InexpressibleKey:
    """A setting that the other format cannot express, with the reason."""

    line: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlattenedFile:
    """A YAML file converted to flat properties. `notes` lists keys that have a different effect in
    properties than in the YAML file; they require no action by the user."""

    pairs: tuple[FlatProperty, ...]
    inexpressible: tuple[InexpressibleKey, ...]
    notes: tuple[str, ...]


def find_largest_replication_factor(given: Sequence[str]) -> str | None:
    """Return the largest replication factor, or None if placeholders prevent a comparison.

    An explicit factor takes precedence over -1, the brokers' default.
    """
    if len(set(given)) == 1:
        return given[0]
    if any(map(config_providers.find_provider_names, given)):
        return None
    return max(given, key=int)


def _build_incomparable_replication_factors_error(
    target: str, given: Sequence[FlatProperty]
) -> InexpressibleKey:
    other = next(each for each in given if each.value != given[0].value)
    text = (
        f"differs from that of another flow to {target}, and placeholders hide which factor is "
        "larger: set the replication factors of the workers' topics in section worker: "
        f"{' and '.join(mm2_property_keys.WORKER_FACTOR_KEYS)}"
    )
    return InexpressibleKey(line=other.line, key=other.path, text=text)


def flatten_file(root: YamlSection, *, folder: pathlib.Path) -> FlattenedFile:
    """Convert a valid YAML file to flat properties. Relative paths in the file are resolved against
    the directory `folder`."""
    return _YamlFlattener(root, folder).flatten_file()


class SettingTextConverter:
    """Converts placeholders and paths in values from the YAML format to the properties format, or
    back.

    Relative paths are resolved against the directory `folder`. `providers` maps the names of the
    input's config providers to their kinds. `used` collects the kinds of the providers that values
    reference.
    """

    def __init__(self, folder: pathlib.Path, providers: Mapping[str, ProviderKind]) -> None:
        self.inexpressible: list[InexpressibleKey] = []
        self.used: set[str] = set()
        self._folder = folder
        self._providers = providers

    def convert_text(self, text: str, key: str, *, line: int) -> str:
        if (
            (("ssl." in key and key.endswith(_LOCATION)) or key == _DRILL_REPORT_KEY)
            and text.strip()
            and not config_providers.find_provider_names(text)
        ):
            return self._resolve_path(text.strip())
        return config_providers.rewrite_placeholders(
            text, lambda *each: self._convert_placeholder(each, key, line)
        )

    def _convert_placeholder(self, parts: tuple[str, str, str], setting: str, line: int) -> str:
        name, path, key = parts
        kind = self._providers.get(name)
        if kind is None:
            text = f"a literal text that looks like the placeholder ${{{name}:…}}"
            self.inexpressible.append(InexpressibleKey(line=line, key=setting, text=text))
            return f"${{{name}:{path + ':' if path else ''}{key}}}"
        self.used.add(kind.value)
        if kind is ProviderKind.ENVIRONMENT:
            return f"${{{kind.value}:{key}}}"
        return f"${{{kind.value}:{self._resolve_path(path)}:{key}}}"

    def _resolve_path(self, path: str) -> str:
        return str(self._folder.absolute() / path)


class _YamlFlattener:
    """Converts the sections of a YAML file to flat properties."""

    def __init__(self, root: YamlSection, folder: pathlib.Path) -> None:
        self._root = root
        self._texts = SettingTextConverter(folder, {kind.value: kind for kind in ProviderKind})
        self._inexpressible = self._texts.inexpressible
        self._notes: list[str] = []
        self._pairs: dict[str, FlatProperty] = {}
        self._factors_by_target: dict[str, list[FlatProperty]] = {}

    def flatten_file(self) -> FlattenedFile:
        clusters = _list_section_entries(self._root.get_entry("clusters"))
        first = self._root.get_entry("clusters")
        line = first.line if first is not None else 0
        aliases = ",".join(each.key for each in clusters)
        self._add_property(dedicated_mode.CLUSTERS_KEY, aliases, line=line, path="clusters")
        for cluster in clusters:
            self._flatten_cluster(cluster)
        defaults = {
            each.key: each
            for each in _list_section_entries(self._root.get_entry(_DEFAULTS_SECTION))
        }
        self._flatten_defaults(defaults, line)
        self._flatten_workers([each.key for each in clusters], line)
        flows = self._root.get_entry("flows")
        listed = flows.value if flows is not None else None
        for at, item in enumerate(listed.items if isinstance(listed, YamlList) else ()):
            if isinstance(item, YamlSection):
                self._flatten_flow(item, defaults, f"flows[{at}]")
        self._derive_worker_replication_factors()
        for name in ("spark", "metrics", "health", "drill"):
            self._flatten_extension_section(
                name, _list_section_entries(self._root.get_entry(name)), path=name
            )
        self._declare_providers(line)
        return FlattenedFile(
            pairs=tuple(self._pairs.values()),
            inexpressible=tuple(self._inexpressible),
            notes=tuple(self._notes),
        )

    def _declare_providers(self, line: int) -> None:
        used = sorted(self._texts.used)
        if used:
            self._add_property(config_providers.PROVIDERS_KEY, ",".join(used), line=line, path="")
        for name in used:
            key = f"{config_providers.PROVIDERS_KEY}.{name}.class"
            kind = _PROVIDER_NAMES[ProviderKind(name)]
            self._add_property(key, kind, line=line, path="")

    def _flatten_cluster(self, cluster: YamlEntry) -> None:
        """Add a cluster's properties. Properties that Java would not pass to any client are added
        with each client prefix.

        Java passes only security properties and bootstrap servers without a client prefix.
        """
        given = {each.key: each for each in _list_section_entries(cluster)}
        for name, entry in given.items():
            key, path = f"{cluster.key}.{name}", f"clusters.{cluster.key}.{name}"
            is_plain = (
                not name.startswith(_CLIENT_PREFIXES)
                and name in client_config_keys.SUPPORTED_PROPERTIES
            )
            if name in mm2_property_keys.CLIENT_KEYS or not is_plain:
                self._add_entry(key, entry, path)
                continue
            for role in _CLIENT_PREFIXES:
                if role + name not in given:
                    self._add_entry(f"{cluster.key}.{role}{name}", entry, path)
            self._notes.append(f"{key}: does not apply to mm2's internal topics")

    def _flatten_defaults(self, defaults: Mapping[str, YamlEntry], line: int) -> None:
        for name, entry in defaults.items():
            if name in mm2_property_keys.CONNECTOR_KEYS and name != flow_config_keys.ENABLED.name:
                self._add_entry(name, entry, f"{_DEFAULTS_SECTION}.{name}")
        for option in flow_config_keys.YAML_DEFAULT_OPTIONS:
            if option.name not in defaults:
                self._add_default_property(option.name, str(option.default), line=line)

    def _flatten_flow(
        self, flow: YamlSection, defaults: Mapping[str, YamlEntry], path: str
    ) -> None:
        given = {each.key: each for each in flow.entries}
        name = (
            f"{self._get_scalar_text(given.get('from'))}->{self._get_scalar_text(given.get('to'))}"
        )
        whole = {**defaults, **given}
        if flow_config_keys.ENABLED.name not in whole:
            self._add_default_property(f"{name}.enabled", "true", line=flow.line, path=path)
        for key, entry in whole.items():
            inherited = key not in given
            if key in ("from", "to") or (
                inherited
                and key in mm2_property_keys.CONNECTOR_KEYS
                and key != flow_config_keys.ENABLED.name
            ):
                continue
            own = f"{_DEFAULTS_SECTION if inherited else path}.{key}"
            position = self._get_scalar_text(entry).strip().lower()
            if key == mm2_only_keys.START.name and position in ("earliest", "latest"):
                self._add_property(f"{name}.{_RESET_KEY}", position, line=entry.line, path=own)
                continue
            self._add_entry(f"{name}.{key}", entry, own)
            if key in mm2_only_keys.NAMES:
                self._notes.append(f"{name}.{key}: ignored by Java MirrorMaker 2")
        self._flatten_replication_factors(name, whole, given, path)

    def _flatten_replication_factors(
        self,
        name: str,
        whole: Mapping[str, YamlEntry],
        given: Mapping[str, YamlEntry],
        path: str,
    ) -> None:
        """Set the replication factor of all internal topics of a flow that have no explicit
        factor."""
        option = flow_config_keys.REPLICATION_FACTOR.name
        factor = whole.get(option)
        value = (
            self._get_scalar_text(factor)
            if factor is not None
            else flow_config_keys.REPLICATION_FACTOR.default
        )
        made = FlatProperty(
            key=option,
            value=str(value),
            line=factor.line if factor is not None else 0,
            path=f"{path if option in given else _DEFAULTS_SECTION}.{option}",
            is_default=factor is None,
        )
        syncs = (
            self._get_scalar_text(whole.get(mirror_connector_config_keys.EMIT_SYNCS))
            .strip()
            .lower()
            != "false"
        )
        for key in mm2_property_keys.FACTOR_KEYS:
            if key not in whole and (
                syncs or key != mirror_connector_config_keys.SYNCS_TOPIC_FACTOR
            ):
                self._add_derived_property(f"{name}.{key}", made)
        if (
            self._get_scalar_text(whole.get(flow_config_keys.ENABLED.name)).strip().lower()
            != "false"
        ):
            self._factors_by_target.setdefault(name.partition("->")[2], []).append(made)

    def _derive_worker_replication_factors(self) -> None:
        """Set the replication factor of worker topics to the largest factor of all flows to the
        same cluster."""
        for target, given in self._factors_by_target.items():
            inexpressible = [
                key
                for key in mm2_property_keys.WORKER_FACTOR_KEYS
                if f"{target}.{key}" not in self._pairs
            ]
            value = find_largest_replication_factor([each.value for each in given])
            if value is None and inexpressible:
                self._inexpressible.append(
                    _build_incomparable_replication_factors_error(target, given)
                )
            most = next((each for each in given if each.value == value), given[0])
            for key in inexpressible:
                self._add_derived_property(f"{target}.{key}", most)

    def _add_derived_property(self, key: str, made: FlatProperty) -> None:
        """Add a property with the same value and the same location (for problem reports) as the
        property `made`, from which it is derived."""
        self._pairs.setdefault(key, dataclasses.replace(made, key=key))

    def _flatten_extension_section(
        self, section: str, entries: Iterable[YamlEntry], *, path: str
    ) -> None:
        for entry in entries:
            key = f"mm2.{section}.{entry.key}"
            if isinstance(entry.value, YamlSection):
                self._flatten_extension_section(
                    f"{section}.{entry.key}", entry.value.entries, path=f"{path}.{entry.key}"
                )
            else:
                self._add_entry(key, entry, f"{path}.{entry.key}")

    def _flatten_workers(self, aliases: Iterable[str], line: int) -> None:
        """Add the properties of section `worker` for each cluster, and those of section `rest`
        once."""
        for entry in _list_section_entries(self._root.get_entry("rest")):
            self._add_entry(entry.key, entry, f"rest.{entry.key}")
        given = {each.key: each for each in _list_section_entries(self._root.get_entry("worker"))}
        for alias in aliases:
            for key, entry in given.items():
                self._add_entry(f"{alias}.{key}", entry, f"worker.{key}")
        delay = mm2_property_keys.REBALANCE_DELAY
        for key, value in mm2_property_keys.YAML_DEFAULTS.items():
            self._add_default_property(key, value, line=line, path=f"rest.{key}")
        for alias in aliases:
            value = str(mm2_property_keys.REBALANCE_DELAY_MS)
            self._add_default_property(f"{alias}.{delay}", value, line=line, path=f"worker.{delay}")

    def _get_scalar_text(self, entry: YamlEntry | None) -> str:
        value = entry.value if entry is not None else None
        return value.text or "" if isinstance(value, YamlScalar) else ""

    def _add_entry(self, key: str, entry: YamlEntry, path: str) -> None:
        node = entry.value
        if isinstance(node, YamlScalar):
            spelled = _canonicalize_value(entry.key, node.text or "")
            text = self._texts.convert_text(spelled, path, line=entry.line)
            return self._add_property(key, text, line=entry.line, path=path)
        items = [
            self._texts.convert_text(each.text or "", path, line=each.line)
            for each in (node.items if isinstance(node, YamlList) else ())
            if isinstance(each, YamlScalar)
        ]
        for item in items:
            if "," in item or (len(items) == 1 and not item.strip()):
                text = f"{item!r}, because commas separate the items of a list"
                self._inexpressible.append(InexpressibleKey(line=entry.line, key=path, text=text))
        return self._add_property(key, ",".join(items), line=entry.line, path=path)

    def _add_property(self, key: str, value: str, *, line: int, path: str) -> None:
        """Add a property unless it is already set."""
        self._pairs.setdefault(key, FlatProperty(key=key, value=value, line=line, path=path))

    def _add_default_property(self, key: str, value: str, *, line: int, path: str = "") -> None:
        """Add a default value unless the property is already set. Problems with the property are
        reported at `line`."""
        made = FlatProperty(key=key, value=value, line=line, path=path, is_default=True)
        self._pairs.setdefault(key, made)


def _canonicalize_value(name: str, text: str) -> str:
    """Return a value in the form that connectors accept: class names with their package, choices in
    the exact case. Other values are returned unchanged."""
    option = _CHOICE_OPTIONS.get(name)
    if option is None or config_providers.find_provider_names(text):
        return text
    found = option.kind.parse((text,))
    short = option in flow_config_keys.CLASS_OPTIONS and "." not in found and ":" not in found
    return java_class_placeholders.MIRROR_PACKAGE + found if short else found


def _list_section_entries(entry: YamlEntry | None) -> tuple[YamlEntry, ...]:
    value = entry.value if entry is not None else None
    return value.entries if isinstance(value, YamlSection) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedFile:
    """The converted text, with settings that could not be expressed and informational notes."""

    text: str
    inexpressible: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def convert_to_yaml(translated: TranslatedProperties, *, folder: pathlib.Path) -> ConvertedFile:
    """Convert a valid properties file to YAML. Relative paths in the file are resolved against the
    directory `folder`."""
    texts = SettingTextConverter(
        folder, {name: each.kind for name, each in translated.providers.items()}
    )
    root = translated.document.root
    assert isinstance(root, YamlSection), "a valid properties file is translated to a section"
    tree = _YamlNodeConverter(texts).convert_node(root)
    assert isinstance(tree, dict)
    inexpressible = _add_java_defaults(tree, translated, texts)
    inexpressible += map(str, texts.inexpressible)
    for name, each in translated.providers.items():
        if each.paths or each.names is not None:
            key = f"{config_providers.PROVIDERS_KEY}.{name}.param"
            inexpressible.append(f"{key}: {_RESTRICTION_INEXPRESSIBLE}")
    notes = [f"{each.key}: {each.text}" for each in translated.warnings]
    return ConvertedFile(
        text=yaml_parser.format_yaml(tree), inexpressible=tuple(inexpressible), notes=tuple(notes)
    )


def _add_java_defaults(
    tree: dict[str, Any], translated: TranslatedProperties, texts: SettingTextConverter
) -> list[str]:
    """Add worker keys, and add Java's default to each key that has a different default in YAML.
    Returns the inexpressible keys."""
    tree["defaults"] = {**mm2_property_keys.JAVA_FLOW_DEFAULTS, **tree["defaults"]}
    said = {
        key: texts.convert_text(pair.value, key, line=pair.line)
        for key, pair in translated.workers.items()
    }
    aliases = sorted({flow["to"] for flow in tree["flows"]})
    rest = {key: value for key, value in said.items() if key in mm2_property_keys.REST_KEYS}
    worker: dict[str, str] = {}
    for key in endpoints_section.WORKER_KEYS:
        found = {said.get(f"{alias}.{key}", said.get(key)) for alias in aliases}
        value = next(iter(found), None)
        if value is not None and len(found) == 1:
            worker[key] = value
    placed = {*rest, *worker, *(f"{alias}.{key}" for alias in tree["clusters"] for key in worker)}
    tree["rest"] = {**mm2_property_keys.JAVA_REST_DEFAULTS, **rest}
    tree["worker"] = {**mm2_property_keys.JAVA_WORKER_DEFAULTS, **worker}
    for key in mm2_property_keys.WORKER_FACTOR_KEYS:
        if all(
            said.get(f"{alias}.{key}") == _find_worker_replication_factor(tree, alias)
            for alias in aliases
        ):
            tree["worker"].pop(key)  # equals the derived default in YAML
            placed |= {f"{alias}.{key}" for alias in aliases}
    return [f"{key}: differs between workers" for key in said if key not in placed]


def _find_worker_replication_factor(tree: dict[str, Any], target: str) -> str | None:
    """Find the replication factor of worker topics on this cluster that YAML would use by
    default."""
    name = flow_config_keys.REPLICATION_FACTOR.name
    usual = {name: flow_config_keys.REPLICATION_FACTOR.default, **tree["defaults"]}
    mine = [{**usual, **flow} for flow in tree["flows"] if flow["to"] == target]
    running = [each for each in mine if str(each.get("enabled", "true")).lower() != "false"]
    return find_largest_replication_factor([str(each[name]) for each in running or mine])


def convert_to_properties(root: YamlSection, *, folder: pathlib.Path) -> ConvertedFile:
    """Convert a valid YAML file to properties. Relative paths in the file are resolved against the
    directory `folder`."""
    found = flatten_file(root, folder=folder)
    return ConvertedFile(
        text="\n".join(
            java_properties.format_property(pair.key, pair.value) for pair in found.pairs
        )
        + "\n",
        inexpressible=tuple(map(str, found.inexpressible)),
        notes=found.notes,
    )


class _YamlNodeConverter:
    """Converts YAML nodes to plain data, with placeholders and paths in YAML syntax."""

    def __init__(self, texts: SettingTextConverter) -> None:
        self._texts = texts

    def convert_node(self, node: YamlNode, key: str = "") -> object:
        if isinstance(node, YamlSection):
            return {each.key: self.convert_node(each.value, each.key) for each in node.entries}
        if isinstance(node, YamlList):
            return [self.convert_node(each, key) for each in node.items]
        if node.text is None:
            return None
        return self._texts.convert_text(node.text, key, line=node.line)


def diff_settings(one: Mm2Settings, other: Mm2Settings) -> list[str]:
    """Compare two configurations. Return the names of the flows and sections that differ."""
    found: list[str] = []
    names = [[flow.name for flow in each.flows] for each in (one, other)]
    if sorted(names[0]) != sorted(names[1]):
        return [f"flows: {names[0]}, {names[1]}"]
    flows = {flow.name: flow for flow in other.flows}
    for flow in one.flows:
        if flow != flows[flow.name]:
            found.append(flow.name)
        if _collect_client_settings(one, flow.name) != _collect_client_settings(other, flow.name):
            found.append(f"{flow.name}: clients")
    for name, left, right in (
        ("spark", one.spark, other.spark),
        ("metrics", one.metrics, other.metrics),
        ("health, drill", one.health, other.health),
        ("hooks", one.hooks, other.hooks),
    ):
        if left != right:
            found.append(name)
    return found


def _collect_client_settings(found: Mm2Settings, name: str) -> Sequence[object]:
    flow = next(each for each in found.flows if each.name == name)
    clients = found.get_clients(flow)
    ends: Iterable[ClusterSettings] = (
        clients.consumer,
        clients.producer,
        clients.source_admin,
        clients.target_admin,
    )
    return [
        (each.bootstrap_servers, each.security, _drop_file_path_properties(each.properties))
        for each in ends
    ]


def _drop_file_path_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the client properties without file paths. The contents of the files are compared
    instead: they are in the field `security`."""
    return {key: text for key, text in properties.items() if not key.endswith(_LOCATION)}
