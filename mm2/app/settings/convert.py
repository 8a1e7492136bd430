"""One configuration in the other form: `clusters.yaml` as `mm2.properties`, and back.

Values are carried over as they stand, placeholders and all: nothing secret is looked at. What the
other form cannot say is named. Relative paths become absolute, since each form starts them
elsewhere.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.adapters.config import properties_source, yaml_source
from connect_runtime.app.settings import declared_providers
from mm2.app.settings import endpoint_reader, flatten, mirror_maker, settings
from mm2.app.settings import flow_options as options
from mm2.app.settings import mirror_maker_keys as keys

_LOCATION = ".location"


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """`unsaid` is what the other form has no words for; `notes` need nobody's attention."""

    text: str
    unsaid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def to_yaml(translated: mirror_maker.Translated, *, folder: pathlib.Path) -> Converted:
    """A properties file that is right. Relative paths in it start at `folder`."""
    texts = flatten.Texts(folder, {name: each.kind for name, each in translated.providers.items()})
    root = translated.document.root
    assert isinstance(root, yaml_source.Section), "only what was read without mistakes"
    tree = _Writer(texts).plain(root)
    assert isinstance(tree, dict)
    unsaid = _as_in_java(tree, translated, texts)
    unsaid += map(str, texts.unsaid)
    for name, each in translated.providers.items():
        if each.paths or each.names is not None:
            key = f"{declared_providers.KEY}.{name}.param"
            unsaid.append(f"{key}: providers have no bounds in YAML")
    notes = [f"{each.key}: {each.text}" for each in translated.warnings]
    return Converted(text=yaml_source.render(tree), unsaid=tuple(unsaid), notes=tuple(notes))


def _as_in_java(
    tree: dict[str, Any], translated: mirror_maker.Translated, texts: flatten.Texts
) -> list[str]:
    """Workers' keys, and what is otherwise in YAML unless it is said; what has no place there."""
    tree["defaults"] = {**keys.OF_JAVA_FLOWS, **tree["defaults"]}
    said = {
        key: texts.carried(pair.value, key, line=pair.line)
        for key, pair in translated.workers.items()
    }
    aliases = sorted({flow["to"] for flow in tree["flows"]})
    rest = {key: value for key, value in said.items() if key in keys.REST}
    worker: dict[str, str] = {}
    for key in endpoint_reader.WORKER:
        found = {said.get(f"{alias}.{key}", said.get(key)) for alias in aliases}
        value = next(iter(found), None)
        if value is not None and len(found) == 1:
            worker[key] = value
    placed = {*rest, *worker, *(f"{alias}.{key}" for alias in tree["clusters"] for key in worker)}
    tree["rest"] = {**keys.OF_JAVA_REST, **rest}
    tree["worker"] = {**keys.OF_JAVA_WORKERS, **worker}
    for key in keys.WORKER_FACTORS:
        if all(said.get(f"{alias}.{key}") == _factor(tree, alias) for alias in aliases):
            tree["worker"].pop(key)  # it is so in YAML
            placed |= {f"{alias}.{key}" for alias in aliases}
    return [f"{key}: is not the same for all workers" for key in said if key not in placed]


def _factor(tree: dict[str, Any], target: str) -> str | None:
    """What workers' topics on this cluster have unless it is said (`flatten`)."""
    name = options.REPLICATION_FACTOR.name
    usual = {name: options.REPLICATION_FACTOR.default, **tree["defaults"]}
    mine = [{**usual, **flow} for flow in tree["flows"] if flow["to"] == target]
    running = [each for each in mine if str(each.get("enabled", "true")).lower() != "false"]
    return flatten.largest_factor([str(each[name]) for each in running or mine])


def to_properties(root: yaml_source.Section, *, folder: pathlib.Path) -> Converted:
    """A YAML file that is right. Relative paths in it start at `folder`."""
    found = flatten.flatten(root, folder=folder)
    return Converted(
        text="\n".join(properties_source.render(pair.key, pair.value) for pair in found.pairs)
        + "\n",
        unsaid=tuple(map(str, found.unsaid)),
        notes=found.notes,
    )


class _Writer:
    """From nodes to plain data, with placeholders and paths as YAML has them."""

    def __init__(self, texts: flatten.Texts) -> None:
        self._texts = texts

    def plain(self, node: yaml_source.Node, key: str = "") -> object:
        if isinstance(node, yaml_source.Section):
            return {each.key: self.plain(each.value, each.key) for each in node.entries}
        if isinstance(node, yaml_source.Listing):
            return [self.plain(each, key) for each in node.items]
        if node.text is None:
            return None
        return self._texts.carried(node.text, key, line=node.line)


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
        ("health, drill", one.watch, other.watch),
        ("hooks", one.hooks, other.hooks),
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
