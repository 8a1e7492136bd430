"""Converts `clusters.yaml` into MirrorMaker 2's flat properties, and properties into YAML.

Everything that runs is derived from flat properties (`dedicated_mode`), whichever form the
file has. Values are copied as written, placeholders included; no secret is read. What the other
form cannot express is reported (`InexpressibleKey`). Relative paths become absolute, because
the two forms start them at different folders.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.config import config_providers, java_properties, yaml_file
from connect_runtime.config.config_providers import ProviderKind
from connect_runtime.config.yaml_file import YamlEntry, YamlList, YamlNode, YamlScalar, YamlSection
from mm2.config import (
    client_keys,
    dedicated_mode,
    endpoints_section,
    flow_keys,
    flows_section,
    java_classes,
    keys,
    mm2_property_keys,
)
from mm2.config.mm2_properties import TranslatedProperties
from mm2.config.mm2_settings import ClientType, ClusterSettings, Mm2Settings

_LOCATION = ".location"
_DRILL_REPORT_KEY = "mm2.drill.report"
_CLIENT_PREFIXES = tuple(role.prefix for role in ClientType)
_RESET_KEY = flows_section.CONSUMER_PREFIX + mm2_property_keys.AUTO_OFFSET_RESET
_PROVIDER_NAMES = {kind: name for name, kind in config_providers.KIND_BY_JAVA_CLASS.items()}
_DEFAULTS_SECTION = "defaults"
_CHOICE_OPTIONS = {
    each.name: each
    for each in (
        *flow_keys.CLASS_OPTIONS,
        flow_keys.USE_DEFAULTS_FROM,
        flow_keys.DELIVERY,
        flow_keys.ON_SOURCE_GAP,
        flow_keys.target_topics_option(flow_keys.DEFAULT_POLICY),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatProperty:
    """One property; `path` is where the file has it, at `line`. `is_default`: the file has it
    nowhere."""

    key: str
    value: str = field(repr=False)
    line: int
    path: str
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InexpressibleKey:
    """Something that properties have no words for."""

    line: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlattenedFile:
    """`notes` say what properties mean otherwise, and need nobody's attention."""

    pairs: tuple[FlatProperty, ...]
    unsaid: tuple[InexpressibleKey, ...]
    notes: tuple[str, ...]


def find_largest_factor(given: Sequence[str]) -> str | None:
    """Of replication factors: the cluster's own (-1) gives way to one that is stated. None where
    it cannot be seen, as of placeholders."""
    if len(set(given)) == 1:
        return given[0]
    if any(map(config_providers.find_provider_names, given)):
        return None
    return max(given, key=int)


def _incomparable_factors(target: str, given: Sequence[FlatProperty]) -> InexpressibleKey:
    other = next(each for each in given if each.value != given[0].value)
    text = (
        f"differs from that of another flow to {target}, and it cannot be seen which is the larger "
        "one: state what its workers' topics have, "
        f"{' and '.join(mm2_property_keys.WORKER_FACTOR_KEYS)} in the "
        "section worker"
    )
    return InexpressibleKey(line=other.line, key=other.path, text=text)


def flatten_file(root: YamlSection, *, folder: pathlib.Path) -> FlattenedFile:
    """Of a file that is right. Relative paths in it start at `folder`."""
    return _Flattener(root, folder).run()


class TextConverter:
    """Texts of one form as the other has them; relative paths start at `folder`.

    `providers` are those of the form that is read, by name; `used` fills with their kinds.
    """

    def __init__(self, folder: pathlib.Path, providers: Mapping[str, ProviderKind]) -> None:
        self.unsaid: list[InexpressibleKey] = []
        self.used: set[str] = set()
        self._folder = folder
        self._providers = providers

    def carried(self, text: str, key: str, *, line: int) -> str:
        if (
            (("ssl." in key and key.endswith(_LOCATION)) or key == _DRILL_REPORT_KEY)
            and text.strip()
            and not config_providers.find_provider_names(text)
        ):
            return self._absolute(text.strip())
        return config_providers.rewrite_placeholders(
            text, lambda *each: self._placeholder(each, key, line)
        )

    def _placeholder(self, parts: tuple[str, str, str], setting: str, line: int) -> str:
        name, path, key = parts
        kind = self._providers.get(name)
        if kind is None:
            text = f"a text that looks like the placeholder ${{{name}:…}}"
            self.unsaid.append(InexpressibleKey(line=line, key=setting, text=text))
            return f"${{{name}:{path + ':' if path else ''}{key}}}"
        self.used.add(kind.value)
        if kind is ProviderKind.ENVIRONMENT:
            return f"${{{kind.value}:{key}}}"
        return f"${{{kind.value}:{self._absolute(path)}:{key}}}"

    def _absolute(self, path: str) -> str:
        return str(self._folder.absolute() / path)


class _Flattener:
    def __init__(self, root: YamlSection, folder: pathlib.Path) -> None:
        self._root = root
        self._texts = TextConverter(folder, {kind.value: kind for kind in ProviderKind})
        self._unsaid = self._texts.unsaid
        self._notes: list[str] = []
        self._pairs: dict[str, FlatProperty] = {}
        self._factors_by_target: dict[str, list[FlatProperty]] = {}

    def run(self) -> FlattenedFile:
        clusters = _list_entries(self._root.get("clusters"))
        first = self._root.get("clusters")
        line = first.line if first is not None else 0
        aliases = ",".join(each.key for each in clusters)
        self._add(dedicated_mode.CLUSTERS_KEY, aliases, line=line, path="clusters")
        for cluster in clusters:
            self._cluster(cluster)
        defaults = {each.key: each for each in _list_entries(self._root.get(_DEFAULTS_SECTION))}
        self._defaults(defaults, line)
        self._workers([each.key for each in clusters], line)
        flows = self._root.get("flows")
        listed = flows.value if flows is not None else None
        for at, item in enumerate(listed.items if isinstance(listed, YamlList) else ()):
            if isinstance(item, YamlSection):
                self._flow(item, defaults, f"flows[{at}]")
        self._worker_factors()
        for name in ("spark", "metrics", "health", "drill"):
            self._ours(name, _list_entries(self._root.get(name)), path=name)
        self._declare_providers(line)
        return FlattenedFile(
            pairs=tuple(self._pairs.values()), unsaid=tuple(self._unsaid), notes=tuple(self._notes)
        )

    def _declare_providers(self, line: int) -> None:
        used = sorted(self._texts.used)
        if used:
            self._add(config_providers.PROVIDERS_KEY, ",".join(used), line=line, path="")
        for name in used:
            key = f"{config_providers.PROVIDERS_KEY}.{name}.class"
            kind = _PROVIDER_NAMES[ProviderKind(name)]
            self._add(key, kind, line=line, path="")

    def _cluster(self, cluster: YamlEntry) -> None:
        """Plain properties reach Java's clients only if they are of security, or servers."""
        given = {each.key: each for each in _list_entries(cluster)}
        for name, entry in given.items():
            key, path = f"{cluster.key}.{name}", f"clusters.{cluster.key}.{name}"
            plain = (
                not name.startswith(_CLIENT_PREFIXES) and name in client_keys.SUPPORTED_PROPERTIES
            )
            if name in mm2_property_keys.CLIENT_KEYS or not plain:
                self._say(key, entry, path)
                continue
            for role in _CLIENT_PREFIXES:
                if role + name not in given:
                    self._say(f"{cluster.key}.{role}{name}", entry, path)
            self._notes.append(f"{key}: not for the topics that mm2 keeps for itself")

    def _defaults(self, defaults: Mapping[str, YamlEntry], line: int) -> None:
        for name, entry in defaults.items():
            if name in mm2_property_keys.CONNECTOR_KEYS and name != flow_keys.ENABLED.name:
                self._say(name, entry, f"{_DEFAULTS_SECTION}.{name}")
        for option in flow_keys.YAML_DEFAULT_OPTIONS:
            if option.name not in defaults:
                self._add_default(option.name, str(option.default), line=line)

    def _flow(self, flow: YamlSection, defaults: Mapping[str, YamlEntry], path: str) -> None:
        given = {each.key: each for each in flow.entries}
        name = f"{self._text(given.get('from'))}->{self._text(given.get('to'))}"
        whole = {**defaults, **given}
        if flow_keys.ENABLED.name not in whole:
            self._add_default(f"{name}.enabled", "true", line=flow.line, path=path)
        for key, entry in whole.items():
            inherited = key not in given
            if key in ("from", "to") or (
                inherited
                and key in mm2_property_keys.CONNECTOR_KEYS
                and key != flow_keys.ENABLED.name
            ):
                continue
            own = f"{_DEFAULTS_SECTION if inherited else path}.{key}"
            position = self._text(entry).strip().lower()
            if key == flow_keys.START.name and position in ("earliest", "latest"):
                self._add(f"{name}.{_RESET_KEY}", position, line=entry.line, path=own)
                continue
            self._say(f"{name}.{key}", entry, own)
            if key in mm2_property_keys.EXTENSION_KEYS:
                self._notes.append(f"{name}.{key}: Java's MirrorMaker 2 does not know it")
        self._factors(name, whole, given, path)

    def _factors(
        self,
        name: str,
        whole: Mapping[str, YamlEntry],
        given: Mapping[str, YamlEntry],
        path: str,
    ) -> None:
        """Every topic that is made for a flow has as many replicas, unless it is said of one."""
        option = flow_keys.REPLICATION_FACTOR.name
        factor = whole.get(option)
        value = self._text(factor) if factor is not None else flow_keys.REPLICATION_FACTOR.default
        made = FlatProperty(
            key=option,
            value=str(value),
            line=factor.line if factor is not None else 0,
            path=f"{path if option in given else _DEFAULTS_SECTION}.{option}",
            is_default=factor is None,
        )
        syncs = self._text(whole.get(keys.EMIT_SYNCS)).strip().lower() != "false"
        for key in mm2_property_keys.FACTOR_KEYS:
            if key not in whole and (syncs or key != keys.SYNCS_TOPIC_FACTOR):
                self._derive(f"{name}.{key}", made)
        if self._text(whole.get(flow_keys.ENABLED.name)).strip().lower() != "false":
            self._factors_by_target.setdefault(name.partition("->")[2], []).append(made)

    def _worker_factors(self) -> None:
        """Workers of all flows to a cluster are told one number: the largest that a flow has."""
        for target, given in self._factors_by_target.items():
            unsaid = [
                key
                for key in mm2_property_keys.WORKER_FACTOR_KEYS
                if f"{target}.{key}" not in self._pairs
            ]
            value = find_largest_factor([each.value for each in given])
            if value is None and unsaid:
                self._unsaid.append(_incomparable_factors(target, given))
            most = next((each for each in given if each.value == value), given[0])
            for key in unsaid:
                self._derive(f"{target}.{key}", most)

    def _derive(self, key: str, made: FlatProperty) -> None:
        """A property that has the value of another: mistakes in it are told where that stands."""
        self._pairs.setdefault(key, dataclasses.replace(made, key=key))

    def _ours(self, section: str, entries: Iterable[YamlEntry], *, path: str) -> None:
        for entry in entries:
            key = f"mm2.{section}.{entry.key}"
            if isinstance(entry.value, YamlSection):
                self._ours(
                    f"{section}.{entry.key}", entry.value.entries, path=f"{path}.{entry.key}"
                )
            else:
                self._say(key, entry, f"{path}.{entry.key}")

    def _workers(self, aliases: Iterable[str], line: int) -> None:
        """What is said of all workers goes to each cluster; of REST there is one for all."""
        for entry in _list_entries(self._root.get("rest")):
            self._say(entry.key, entry, f"rest.{entry.key}")
        given = {each.key: each for each in _list_entries(self._root.get("worker"))}
        for alias in aliases:
            for key, entry in given.items():
                self._say(f"{alias}.{key}", entry, f"worker.{key}")
        delay = mm2_property_keys.REBALANCE_DELAY
        for key, value in mm2_property_keys.YAML_DEFAULTS.items():
            self._add_default(key, value, line=line, path=f"rest.{key}")
        for alias in aliases:
            value = str(mm2_property_keys.REBALANCE_DELAY_MS)
            self._add_default(f"{alias}.{delay}", value, line=line, path=f"worker.{delay}")

    def _text(self, entry: YamlEntry | None) -> str:
        value = entry.value if entry is not None else None
        return value.text or "" if isinstance(value, YamlScalar) else ""

    def _say(self, key: str, entry: YamlEntry, path: str) -> None:
        node = entry.value
        if isinstance(node, YamlScalar):
            spelled = _canonical_spelling(entry.key, node.text or "")
            text = self._texts.carried(spelled, path, line=entry.line)
            return self._add(key, text, line=entry.line, path=path)
        items = [
            self._texts.carried(each.text or "", path, line=each.line)
            for each in (node.items if isinstance(node, YamlList) else ())
            if isinstance(each, YamlScalar)
        ]
        for item in items:
            if "," in item or (len(items) == 1 and not item.strip()):
                text = f"{item!r}, since commas separate the items of a list"
                self._unsaid.append(InexpressibleKey(line=entry.line, key=path, text=text))
        return self._add(key, ",".join(items), line=entry.line, path=path)

    def _add(self, key: str, value: str, *, line: int, path: str) -> None:
        """What is said first counts: of itself before what it has from elsewhere."""
        self._pairs.setdefault(key, FlatProperty(key=key, value=value, line=line, path=path))

    def _add_default(self, key: str, value: str, *, line: int, path: str = "") -> None:
        """As `_add`, of what the file does not say; mistakes in it are told at `line`."""
        made = FlatProperty(key=key, value=value, line=line, path=path, is_default=True)
        self._pairs.setdefault(key, made)


def _canonical_spelling(name: str, text: str) -> str:
    """As connectors take it, which know no short names and no other case."""
    option = _CHOICE_OPTIONS.get(name)
    if option is None or config_providers.find_provider_names(text):
        return text
    found = option.kind.parse((text,))
    short = option in flow_keys.CLASS_OPTIONS and "." not in found and ":" not in found
    return java_classes.MIRROR_PACKAGE + found if short else found


def _list_entries(entry: YamlEntry | None) -> tuple[YamlEntry, ...]:
    value = entry.value if entry is not None else None
    return value.entries if isinstance(value, YamlSection) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedFile:
    """`unsaid` is what the other form has no words for; `notes` need nobody's attention."""

    text: str
    unsaid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def convert_to_yaml(translated: TranslatedProperties, *, folder: pathlib.Path) -> ConvertedFile:
    """A properties file that is right. Relative paths in it start at `folder`."""
    texts = TextConverter(folder, {name: each.kind for name, each in translated.providers.items()})
    root = translated.document.root
    assert isinstance(root, YamlSection), "only what was read without mistakes"
    tree = _YamlWriter(texts).plain(root)
    assert isinstance(tree, dict)
    unsaid = _add_java_defaults(tree, translated, texts)
    unsaid += map(str, texts.unsaid)
    for name, each in translated.providers.items():
        if each.paths or each.names is not None:
            key = f"{config_providers.PROVIDERS_KEY}.{name}.param"
            unsaid.append(f"{key}: providers have no bounds in YAML")
    notes = [f"{each.key}: {each.text}" for each in translated.warnings]
    return ConvertedFile(text=yaml_file.format_yaml(tree), unsaid=tuple(unsaid), notes=tuple(notes))


def _add_java_defaults(
    tree: dict[str, Any], translated: TranslatedProperties, texts: TextConverter
) -> list[str]:
    """Workers' keys, and what is otherwise in YAML unless it is said; what has no place there."""
    tree["defaults"] = {**mm2_property_keys.JAVA_FLOW_DEFAULTS, **tree["defaults"]}
    said = {
        key: texts.carried(pair.value, key, line=pair.line)
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
        if all(said.get(f"{alias}.{key}") == _find_worker_factor(tree, alias) for alias in aliases):
            tree["worker"].pop(key)  # it is so in YAML
            placed |= {f"{alias}.{key}" for alias in aliases}
    return [f"{key}: is not the same for all workers" for key in said if key not in placed]


def _find_worker_factor(tree: dict[str, Any], target: str) -> str | None:
    """What workers' topics on this cluster have unless it is said (`properties_conversion`)."""
    name = flow_keys.REPLICATION_FACTOR.name
    usual = {name: flow_keys.REPLICATION_FACTOR.default, **tree["defaults"]}
    mine = [{**usual, **flow} for flow in tree["flows"] if flow["to"] == target]
    running = [each for each in mine if str(each.get("enabled", "true")).lower() != "false"]
    return find_largest_factor([str(each[name]) for each in running or mine])


def convert_to_properties(root: YamlSection, *, folder: pathlib.Path) -> ConvertedFile:
    """A YAML file that is right. Relative paths in it start at `folder`."""
    found = flatten_file(root, folder=folder)
    return ConvertedFile(
        text="\n".join(
            java_properties.format_property(pair.key, pair.value) for pair in found.pairs
        )
        + "\n",
        unsaid=tuple(map(str, found.unsaid)),
        notes=found.notes,
    )


class _YamlWriter:
    """From nodes to plain data, with placeholders and paths as YAML has them."""

    def __init__(self, texts: TextConverter) -> None:
        self._texts = texts

    def plain(self, node: YamlNode, key: str = "") -> object:
        if isinstance(node, YamlSection):
            return {each.key: self.plain(each.value, each.key) for each in node.entries}
        if isinstance(node, YamlList):
            return [self.plain(each, key) for each in node.items]
        if node.text is None:
            return None
        return self._texts.carried(node.text, key, line=node.line)


def diff_settings(one: Mm2Settings, other: Mm2Settings) -> list[str]:
    """Which settings are not the same in both."""
    found: list[str] = []
    names = [[flow.name for flow in each.flows] for each in (one, other)]
    if sorted(names[0]) != sorted(names[1]):
        return [f"flows: {names[0]}, {names[1]}"]
    flows = {flow.name: flow for flow in other.flows}
    for flow in one.flows:
        if flow != flows[flow.name]:
            found.append(flow.name)
        if _describe_clients(one, flow.name) != _describe_clients(other, flow.name):
            found.append(f"{flow.name}: clients")
    for name, left, right in (
        ("spark", one.spark, other.spark),
        ("metrics", one.metrics, other.metrics),
        ("health, drill", one.watch, other.watch),
        ("hooks", one.hooks, other.hooks),
    ):
        if left != right:
            found.append(name)
    return found


def _describe_clients(found: Mm2Settings, name: str) -> Sequence[object]:
    flow = next(each for each in found.flows if each.name == name)
    clients = found.clients_of(flow)
    ends: Iterable[ClusterSettings] = (
        clients.consumer,
        clients.producer,
        clients.source_admin,
        clients.target_admin,
    )
    return [
        (each.bootstrap_servers, each.security, _without_paths(each.properties)) for each in ends
    ]


def _without_paths(properties: Mapping[str, str]) -> dict[str, str]:
    """Files are compared by what they hold (`security`), not by how they are called."""
    return {key: text for key, text in properties.items() if not key.endswith(_LOCATION)}
