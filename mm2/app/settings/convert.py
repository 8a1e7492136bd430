"""One configuration in the other form: `clusters.yaml` as `mm2.properties`, and back.

Values are carried over as they stand, placeholders and all: nothing secret is looked at. What the
other form cannot say is named. Relative paths become absolute, since each form starts them
elsewhere.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.adapters.config import properties_source, value_providers, yaml_source
from connect_runtime.app.settings import declared_providers
from mm2.app.settings import flow_clients, mirror_maker, settings
from mm2.app.settings import flow_options as options
from mm2.app.settings import mirror_maker_keys as keys
from mm2.core.configs import client_properties

_LOCATION = ".location"
_ROLES = tuple(role.prefix for role in settings.Role)
_RESET = flow_clients.CONSUMER + keys.RESET
_KINDS = {kind: name for name, kind in declared_providers.CLASSES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """`unsaid` is what the other form has no words for; `notes` need nobody's attention."""

    text: str
    unsaid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def to_yaml(translated: mirror_maker.Translated, *, folder: pathlib.Path) -> Converted:
    """A properties file that is right. Relative paths in it start at `folder`."""
    writer = _Writer(folder, {name: each.kind for name, each in translated.providers.items()})
    root = translated.document.root
    assert isinstance(root, yaml_source.Section), "only what was read without mistakes"
    tree = writer.plain(root)
    assert isinstance(tree, dict)
    if not tree["defaults"]:
        del tree["defaults"]
    for name, each in translated.providers.items():
        if each.paths or each.names is not None:
            key = f"{declared_providers.KEY}.{name}.param"
            writer.unsaid.append(f"{key}: providers have no bounds in YAML")
    notes = [f"{each.key}: {each.text}" for each in translated.warnings]
    return Converted(text=yaml_source.render(tree), unsaid=tuple(writer.unsaid), notes=tuple(notes))


def to_properties(root: yaml_source.Section, *, folder: pathlib.Path) -> Converted:
    """A YAML file that is right. Relative paths in it start at `folder`."""
    writer = _Writer(folder, {kind.value: kind for kind in value_providers.Kind})
    tree = writer.plain(root)
    assert isinstance(tree, dict)
    return _Flattening(tree, writer).run()


@dataclass(slots=True)
class _Writer:
    """From nodes to plain data, with placeholders and paths as the other form has them."""

    folder: pathlib.Path
    providers: Mapping[str, value_providers.Kind]
    unsaid: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def plain(self, node: yaml_source.Node, key: str = "") -> object:
        if isinstance(node, yaml_source.Section):
            return {each.key: self.plain(each.value, each.key) for each in node.entries}
        if isinstance(node, yaml_source.Listing):
            return [self.plain(each, key) for each in node.items]
        return None if node.text is None else self._text(node.text, key)

    def _text(self, text: str, key: str) -> str:
        if key.endswith(_LOCATION) and text.strip() and not value_providers.named(text):
            return self._absolute(text.strip())
        return value_providers.rewrite(text, lambda *each: self._placeholder(each, key))

    def _placeholder(self, parts: tuple[str, str, str], setting: str) -> str:
        name, path, key = parts
        kind = self.providers.get(name)
        if kind is None:
            self.unsaid.append(f"{setting}: a text that looks like the placeholder ${{{name}:…}}")
            return f"${{{name}:{path + ':' if path else ''}{key}}}"
        self.used.add(kind.value)
        if kind is value_providers.Kind.ENVIRONMENT:
            return f"${{{kind.value}:{key}}}"
        return f"${{{kind.value}:{self._absolute(path)}:{key}}}"

    def _absolute(self, path: str) -> str:
        return str(self.folder.absolute() / path)


class _Flattening:
    """From the sections of YAML to the lines of a properties file."""

    def __init__(self, tree: Mapping[str, object], writer: _Writer) -> None:
        self._tree = tree
        self._writer = writer
        self._notes: list[str] = []
        self._lines: list[str] = []

    def run(self) -> Converted:
        aliases = list(_section(self._tree, "clusters"))
        self._say("clusters", aliases)
        self._declare_providers()
        for alias in aliases:
            self._cluster(alias, _section(_section(self._tree, "clusters"), alias))
        defaults = _section(self._tree, "defaults")
        for name, value in defaults.items():
            if name in keys.CONNECTOR and name != options.ENABLED.name:
                self._say(name, value)
        listed = self._tree.get("flows")
        for flow in listed if isinstance(listed, list) else []:
            self._flow(flow, defaults)
        for section in ("spark", "metrics"):
            self._ours(section, _section(self._tree, section))
        return Converted(
            text="\n".join(self._lines) + "\n",
            unsaid=tuple(self._writer.unsaid),
            notes=tuple(self._notes),
        )

    def _declare_providers(self) -> None:
        used = sorted(self._writer.used)
        if used:
            self._say(declared_providers.KEY, used)
        for name in used:
            self._say(f"{declared_providers.KEY}.{name}.class", _KINDS[value_providers.Kind(name)])

    def _cluster(self, alias: str, given: Mapping[str, object]) -> None:
        """Plain properties reach Java's clients only if they are of security, or servers."""
        for name, value in given.items():
            key = f"{alias}.{name}"
            plain = not name.startswith(_ROLES) and name in client_properties.TAKEN
            if name in keys.CLIENT or not plain:
                self._say(key, value)
                continue
            for role in _ROLES:
                if role + name not in given:
                    self._say(f"{alias}.{role}{name}", value)
            self._notes.append(f"{key}: not for the topics that mm2 keeps for itself")

    def _flow(self, given: Mapping[str, object], defaults: Mapping[str, object]) -> None:
        name = f"{given['from']}->{given['to']}"
        whole = {**defaults, **given}
        self._say(f"{name}.enabled", whole.get(options.ENABLED.name, "true"))
        for key, value in whole.items():
            inherited = key not in given
            if key in ("from", "to", options.ENABLED.name) or (inherited and key in keys.CONNECTOR):
                continue
            if key == options.START.name and str(value).strip().lower() in ("earliest", "latest"):
                self._say(f"{name}.{_RESET}", str(value).strip().lower())
                continue
            self._say(f"{name}.{key}", value)
            if key in keys.OURS:
                self._notes.append(f"{name}.{key}: Java's MirrorMaker 2 does not know it")

    def _ours(self, section: str, given: Mapping[str, object]) -> None:
        for name, value in given.items():
            if isinstance(value, dict):
                for key, text in value.items():
                    self._say(f"mm2.{section}.{name}.{key}", text)
            else:
                self._say(f"mm2.{section}.{name}", value)

    def _say(self, key: str, value: object) -> None:
        if isinstance(value, list):
            for item in value:
                if "," in str(item) or (len(value) == 1 and not str(item).strip()):
                    self._writer.unsaid.append(
                        f"{key}: {item!r}, since commas separate the items of a list"
                    )
            value = ",".join(map(str, value))
        self._lines.append(properties_source.render(key, "" if value is None else str(value)))


def differences(one: settings.Settings, other: settings.Settings) -> list[str]:
    """Which settings are not the same in both."""
    found: list[str] = []
    names = [[flow.name for flow in each.flows] for each in (one, other)]
    if sorted(names[0]) != sorted(names[1]):
        return [f"flows: {names[0]}, {names[1]}"]
    flows = {flow.name: flow for flow in other.flows}
    for flow in one.flows:
        if flow != flows[flow.name]:
            found.append(flow.name)
        if _reached(one, flow.name) != _reached(other, flow.name):
            found.append(f"{flow.name}: clients")
    for name, left, right in (
        ("spark", one.spark, other.spark),
        ("metrics", one.metrics, other.metrics),
    ):
        if left != right:
            found.append(name)
    return found


def _reached(found: settings.Settings, name: str) -> Sequence[object]:
    flow = next(each for each in found.flows if each.name == name)
    clients = found.clients_of(flow)
    ends: Iterable[settings.ClusterSettings] = (
        clients.consumer,
        clients.producer,
        clients.source_admin,
        clients.target_admin,
    )
    return [(each.bootstrap_servers, each.security, _paths_out(each.properties)) for each in ends]


def _paths_out(properties: Mapping[str, str]) -> dict[str, str]:
    """Files are compared by what they hold (`security`), not by how they are called."""
    return {key: text for key, text in properties.items() if not key.endswith(_LOCATION)}


def _section(tree: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = tree.get(name)
    return found if isinstance(found, dict) else {}
