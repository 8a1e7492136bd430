"""From the sections of `clusters.yaml` to the flat properties of MirrorMaker 2.

Everything that runs is derived from flat properties (`core/configs/dedicated`), whichever form the
file has. Values are carried over as they stand, placeholders and all: nothing secret is looked at.
Relative paths become absolute, since each form starts them elsewhere.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_runtime.adapters.config import value_providers, yaml_source
from connect_runtime.app.settings import declared_providers
from mm2.app.settings import flow_clients, settings
from mm2.app.settings import flow_options as options
from mm2.app.settings import mirror_maker_keys as keys
from mm2.core.configs import client_properties, connector_keys, dedicated, java_classes

_LOCATION = ".location"
_DRILL_REPORT = "mm2.drill.report"
_ROLES = tuple(role.prefix for role in settings.Role)
_RESET = flow_clients.CONSUMER + keys.RESET
_KINDS = {kind: name for name, kind in declared_providers.CLASSES.items()}
_FOR_ALL = "defaults"
_CHOICES = {
    each.name: each
    for each in (
        *options.CLASSES,
        options.USE_DEFAULTS_FROM,
        options.DELIVERY,
        options.ON_SOURCE_GAP,
        options.target_topics(options.DEFAULT_POLICY),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One property; `path` is where the file has it, at `line`. `is_default`: the file has it
    nowhere."""

    key: str
    value: str = field(repr=False)
    line: int
    path: str
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsaid:
    """Something that properties have no words for."""

    line: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flattened:
    """`notes` say what properties mean otherwise, and need nobody's attention."""

    pairs: tuple[Pair, ...]
    unsaid: tuple[Unsaid, ...]
    notes: tuple[str, ...]


def largest_factor(given: Sequence[str]) -> str | None:
    """Of replication factors: the cluster's own (-1) gives way to one that is stated. None where
    it cannot be seen, as of placeholders."""
    if len(set(given)) == 1:
        return given[0]
    if any(map(value_providers.named, given)):
        return None
    return max(given, key=int)


def _not_compared(target: str, given: Sequence[Pair]) -> Unsaid:
    other = next(each for each in given if each.value != given[0].value)
    text = (
        f"differs from that of another flow to {target}, and it cannot be seen which is the larger "
        f"one: state what its workers' topics have, {' and '.join(keys.WORKER_FACTORS)} in the "
        "section worker"
    )
    return Unsaid(line=other.line, key=other.path, text=text)


def flatten(root: yaml_source.Section, *, folder: pathlib.Path) -> Flattened:
    """Of a file that is right. Relative paths in it start at `folder`."""
    return _Flattening(root, folder).run()


class Texts:
    """Texts of one form as the other has them; relative paths start at `folder`.

    `providers` are those of the form that is read, by name; `used` fills with their kinds.
    """

    def __init__(self, folder: pathlib.Path, providers: Mapping[str, value_providers.Kind]) -> None:
        self.unsaid: list[Unsaid] = []
        self.used: set[str] = set()
        self._folder = folder
        self._providers = providers

    def carried(self, text: str, key: str, *, line: int) -> str:
        if (
            (("ssl." in key and key.endswith(_LOCATION)) or key == _DRILL_REPORT)
            and text.strip()
            and not value_providers.named(text)
        ):
            return self._absolute(text.strip())
        return value_providers.rewrite(text, lambda *each: self._placeholder(each, key, line))

    def _placeholder(self, parts: tuple[str, str, str], setting: str, line: int) -> str:
        name, path, key = parts
        kind = self._providers.get(name)
        if kind is None:
            text = f"a text that looks like the placeholder ${{{name}:…}}"
            self.unsaid.append(Unsaid(line=line, key=setting, text=text))
            return f"${{{name}:{path + ':' if path else ''}{key}}}"
        self.used.add(kind.value)
        if kind is value_providers.Kind.ENVIRONMENT:
            return f"${{{kind.value}:{key}}}"
        return f"${{{kind.value}:{self._absolute(path)}:{key}}}"

    def _absolute(self, path: str) -> str:
        return str(self._folder.absolute() / path)


class _Flattening:
    def __init__(self, root: yaml_source.Section, folder: pathlib.Path) -> None:
        self._root = root
        self._texts = Texts(folder, {kind.value: kind for kind in value_providers.Kind})
        self._unsaid = self._texts.unsaid
        self._notes: list[str] = []
        self._pairs: dict[str, Pair] = {}
        self._factors_by_target: dict[str, list[Pair]] = {}

    def run(self) -> Flattened:
        clusters = _entries(self._root.get("clusters"))
        first = self._root.get("clusters")
        line = first.line if first is not None else 0
        aliases = ",".join(each.key for each in clusters)
        self._add(dedicated.CLUSTERS, aliases, line=line, path="clusters")
        for cluster in clusters:
            self._cluster(cluster)
        defaults = {each.key: each for each in _entries(self._root.get(_FOR_ALL))}
        self._defaults(defaults, line)
        self._workers([each.key for each in clusters], line)
        flows = self._root.get("flows")
        listed = flows.value if flows is not None else None
        for at, item in enumerate(listed.items if isinstance(listed, yaml_source.Listing) else ()):
            if isinstance(item, yaml_source.Section):
                self._flow(item, defaults, f"flows[{at}]")
        self._worker_factors()
        for name in ("spark", "metrics", "health", "drill"):
            self._ours(name, _entries(self._root.get(name)), path=name)
        self._declare_providers(line)
        return Flattened(
            pairs=tuple(self._pairs.values()), unsaid=tuple(self._unsaid), notes=tuple(self._notes)
        )

    def _declare_providers(self, line: int) -> None:
        used = sorted(self._texts.used)
        if used:
            self._add(declared_providers.KEY, ",".join(used), line=line, path="")
        for name in used:
            key = f"{declared_providers.KEY}.{name}.class"
            kind = _KINDS[value_providers.Kind(name)]
            self._add(key, kind, line=line, path="")

    def _cluster(self, cluster: yaml_source.Entry) -> None:
        """Plain properties reach Java's clients only if they are of security, or servers."""
        given = {each.key: each for each in _entries(cluster)}
        for name, entry in given.items():
            key, path = f"{cluster.key}.{name}", f"clusters.{cluster.key}.{name}"
            plain = not name.startswith(_ROLES) and name in client_properties.TAKEN
            if name in keys.CLIENT or not plain:
                self._say(key, entry, path)
                continue
            for role in _ROLES:
                if role + name not in given:
                    self._say(f"{cluster.key}.{role}{name}", entry, path)
            self._notes.append(f"{key}: not for the topics that mm2 keeps for itself")

    def _defaults(self, defaults: Mapping[str, yaml_source.Entry], line: int) -> None:
        for name, entry in defaults.items():
            if name in keys.CONNECTOR and name != options.ENABLED.name:
                self._say(name, entry, f"{_FOR_ALL}.{name}")
        for option in options.IN_YAML:
            if option.name not in defaults:
                self._add_default(option.name, str(option.default), line=line)

    def _flow(
        self, flow: yaml_source.Section, defaults: Mapping[str, yaml_source.Entry], path: str
    ) -> None:
        given = {each.key: each for each in flow.entries}
        name = f"{self._text(given.get('from'))}->{self._text(given.get('to'))}"
        whole = {**defaults, **given}
        if options.ENABLED.name not in whole:
            self._add_default(f"{name}.enabled", "true", line=flow.line, path=path)
        for key, entry in whole.items():
            inherited = key not in given
            if key in ("from", "to") or (
                inherited and key in keys.CONNECTOR and key != options.ENABLED.name
            ):
                continue
            own = f"{_FOR_ALL if inherited else path}.{key}"
            position = self._text(entry).strip().lower()
            if key == options.START.name and position in ("earliest", "latest"):
                self._add(f"{name}.{_RESET}", position, line=entry.line, path=own)
                continue
            self._say(f"{name}.{key}", entry, own)
            if key in keys.OURS:
                self._notes.append(f"{name}.{key}: Java's MirrorMaker 2 does not know it")
        self._factors(name, whole, given, path)

    def _factors(
        self,
        name: str,
        whole: Mapping[str, yaml_source.Entry],
        given: Mapping[str, yaml_source.Entry],
        path: str,
    ) -> None:
        """Every topic that is made for a flow has as many replicas, unless it is said of one."""
        option = options.REPLICATION_FACTOR.name
        factor = whole.get(option)
        value = self._text(factor) if factor is not None else options.REPLICATION_FACTOR.default
        made = Pair(
            key=option,
            value=str(value),
            line=factor.line if factor is not None else 0,
            path=f"{path if option in given else _FOR_ALL}.{option}",
            is_default=factor is None,
        )
        syncs = self._text(whole.get(connector_keys.EMIT_SYNCS)).strip().lower() != "false"
        for key in keys.FACTORS:
            if key not in whole and (syncs or key != connector_keys.SYNCS_TOPIC_FACTOR):
                self._derive(f"{name}.{key}", made)
        if self._text(whole.get(options.ENABLED.name)).strip().lower() != "false":
            self._factors_by_target.setdefault(name.partition("->")[2], []).append(made)

    def _worker_factors(self) -> None:
        """Workers of all flows to a cluster are told one number: the largest that a flow has."""
        for target, given in self._factors_by_target.items():
            unsaid = [key for key in keys.WORKER_FACTORS if f"{target}.{key}" not in self._pairs]
            value = largest_factor([each.value for each in given])
            if value is None and unsaid:
                self._unsaid.append(_not_compared(target, given))
            most = next((each for each in given if each.value == value), given[0])
            for key in unsaid:
                self._derive(f"{target}.{key}", most)

    def _derive(self, key: str, made: Pair) -> None:
        """A property that has the value of another: mistakes in it are told where that stands."""
        self._pairs.setdefault(key, dataclasses.replace(made, key=key))

    def _ours(self, section: str, entries: Iterable[yaml_source.Entry], *, path: str) -> None:
        for entry in entries:
            key = f"mm2.{section}.{entry.key}"
            if isinstance(entry.value, yaml_source.Section):
                self._ours(
                    f"{section}.{entry.key}", entry.value.entries, path=f"{path}.{entry.key}"
                )
            else:
                self._say(key, entry, f"{path}.{entry.key}")

    def _workers(self, aliases: Iterable[str], line: int) -> None:
        """What is said of all workers goes to each cluster; of REST there is one for all."""
        for entry in _entries(self._root.get("rest")):
            self._say(entry.key, entry, f"rest.{entry.key}")
        given = {each.key: each for each in _entries(self._root.get("worker"))}
        for alias in aliases:
            for key, entry in given.items():
                self._say(f"{alias}.{key}", entry, f"worker.{key}")
        delay = keys.REBALANCE_DELAY
        for key, value in keys.IN_YAML.items():
            self._add_default(key, value, line=line, path=f"rest.{key}")
        for alias in aliases:
            value = str(keys.REBALANCE_DELAY_MS)
            self._add_default(f"{alias}.{delay}", value, line=line, path=f"worker.{delay}")

    def _text(self, entry: yaml_source.Entry | None) -> str:
        value = entry.value if entry is not None else None
        return value.text or "" if isinstance(value, yaml_source.Scalar) else ""

    def _say(self, key: str, entry: yaml_source.Entry, path: str) -> None:
        node = entry.value
        if isinstance(node, yaml_source.Scalar):
            spelled = _spelled(entry.key, node.text or "")
            text = self._texts.carried(spelled, path, line=entry.line)
            return self._add(key, text, line=entry.line, path=path)
        items = [
            self._texts.carried(each.text or "", path, line=each.line)
            for each in (node.items if isinstance(node, yaml_source.Listing) else ())
            if isinstance(each, yaml_source.Scalar)
        ]
        for item in items:
            if "," in item or (len(items) == 1 and not item.strip()):
                text = f"{item!r}, since commas separate the items of a list"
                self._unsaid.append(Unsaid(line=entry.line, key=path, text=text))
        return self._add(key, ",".join(items), line=entry.line, path=path)

    def _add(self, key: str, value: str, *, line: int, path: str) -> None:
        """What is said first counts: of itself before what it has from elsewhere."""
        self._pairs.setdefault(key, Pair(key=key, value=value, line=line, path=path))

    def _add_default(self, key: str, value: str, *, line: int, path: str = "") -> None:
        """As `_add`, of what the file does not say; mistakes in it are told at `line`."""
        made = Pair(key=key, value=value, line=line, path=path, is_default=True)
        self._pairs.setdefault(key, made)


def _spelled(name: str, text: str) -> str:
    """As connectors take it, which know no short names and no other case."""
    option = _CHOICES.get(name)
    if option is None or value_providers.named(text):
        return text
    found = option.kind.parse((text,))
    short = option in options.CLASSES and "." not in found and ":" not in found
    return java_classes.MIRROR + found if short else found


def _entries(entry: yaml_source.Entry | None) -> tuple[yaml_source.Entry, ...]:
    value = entry.value if entry is not None else None
    return value.entries if isinstance(value, yaml_source.Section) else ()
