"""From `mm2.properties` to the sections of `clusters.yaml`, as MirrorMaker 2 understands it.

`MirrorMakerConfig` composes, from one flat file, a configuration for each client; what it would
hand to whom decides here where a key goes. The result has the shape of a YAML document, so that
values, types and mistakes are judged by the same readers, at the lines of the properties file.

Precedence is Java's (reference: `clusterProps`, `connectorBaseConfig`): security and servers at the
top hold for clusters that do not say otherwise; of other client properties only those behind
`consumer.`, `producer.` and `admin.` of a cluster reach a client; `A->B.source.consumer.X` beats
`A.consumer.X`, which beats `A->B.consumer.X`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.adapters.config import properties_source, value_providers, yaml_source
from connect_runtime.app.settings import declared_providers, problems
from mm2.app.settings import flow_options as options
from mm2.app.settings import mirror_maker_flow
from mm2.app.settings import mirror_maker_keys as keys
from mm2.app.settings.mirror_maker_flow import Pairs
from mm2.core.copy import record_transforms

Problem = problems.Problem

_CLUSTERS = "clusters"
_OUR_SECTIONS = ("spark", "metrics", "health", "drill")
_OUR_PREFIX = "mm2."
_CONF = "conf."
_ROLES = ("consumer.", "producer.", "admin.")
_NOT_AT_THE_TOP = (*_ROLES, *record_transforms.FAMILIES)
_POLICIES = "replication.policy."


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """`document` is None when not even the clusters could be told.

    `keys` has the key that stands in each line; `names` are the flows' in the document's order.
    `pairs` are all, as they stand; `workers` those that are for workers and no section.
    """

    document: yaml_source.Document
    providers: Mapping[str, value_providers.Provider]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    keys: Mapping[int, str]
    names: tuple[str, ...]
    pairs: Mapping[str, properties_source.Property] = field(default_factory=dict)
    workers: Mapping[str, properties_source.Property] = field(default_factory=dict)

    def place(self, problem: Problem) -> Problem:
        """The problem with its key as this file spells it."""
        return _renamed(problem, self.keys, self.names)


def translate(text: str) -> Translated:
    """Never raises: mistakes are in `problems`."""
    try:
        entries = properties_source.entries(text)
    except ValueError as error:
        line, _, words = str(error).removeprefix("line ").partition(": ")
        return _nothing(Problem(line=int(line), key="", text=words))
    found = _Translation(entries).run()
    return dataclasses.replace(found, warnings=(*found.warnings, *_beyond_ascii(text)))


def _beyond_ascii(text: str) -> Iterable[Problem]:
    """Most editors write UTF-8, which Kafka does not read here."""
    words = "holds characters beyond ASCII, read as ISO-8859-1 as in Java: write \\uXXXX"
    return (
        Problem(line=number, key="", text=words) for number in properties_source.beyond_ascii(text)
    )


def _nothing(*found: Problem) -> Translated:
    return Translated(
        document=yaml_source.Document(root=None, problems=()),
        providers={},
        problems=found,
        warnings=(),
        keys={},
        names=(),
    )


@dataclass(slots=True)
class _Sorted:
    """Every key of the file, by whom it is for."""

    top: Pairs = field(default_factory=dict)
    clusters: dict[str, Pairs] = field(default_factory=dict)
    flows: dict[tuple[str, str], Pairs] = field(default_factory=dict)
    ours: dict[str, Pairs] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """The clusters that flows of the file read from or copy to."""

    known: Collection[str]

    def without(self, alias: str) -> str:
        """Why the cluster has no client at all; "" if it has.

        Whichever end it is: offset syncs are written to the source, and read from the target.
        """
        return "" if alias in self.known else f"no flow of this file has {alias}"


class _Translation:
    def __init__(self, entries: Iterable[properties_source.Property]) -> None:
        self._account = mirror_maker_flow.Account()
        self._pairs: Pairs = {}
        self._lines: dict[int, str] = {}
        self._workers: Pairs = {}
        for pair in entries:
            earlier = self._pairs.pop(pair.key, None)
            if earlier is not None:
                text = f"has no effect: the key is here again in line {pair.line}"
                self._account.warn(earlier, text)
            self._pairs[pair.key] = pair
            self._lines[pair.line] = pair.key

    def run(self) -> Translated:
        listed = self._pairs.get(_CLUSTERS)
        aliases = [] if listed is None else _split(listed.value)
        if listed is None or not aliases:
            line = 1 if listed is None else listed.line
            text = "is missing: it lists the aliases of the clusters, such as clusters = east, west"
            return _nothing(Problem(line=line, key=_CLUSTERS, text=text))
        providers = declared_providers.read(
            self._pairs, refuse=self._account.problems.append, warn=self._account.warnings.append
        )
        self._tell_placeholders(providers)
        found = self._sort(list(dict.fromkeys(aliases)))
        document = self._document(found, listed.line)
        names = [f"{source}->{target}" for source, target in self._wanted(found)]
        return Translated(
            document=document,
            providers=providers,
            problems=tuple(self._account.problems),
            warnings=tuple(self._account.warnings),
            keys=self._lines,
            names=tuple(names),
            pairs=self._pairs,
            workers=self._workers,
        )

    def _tell_placeholders(self, providers: Mapping[str, value_providers.Provider]) -> None:
        for pair in self._pairs.values():
            for name in value_providers.named(pair.value):
                if name not in providers:
                    text = f"is taken as it stands: {declared_providers.KEY} has no {name!r}"
                    self._account.warn(pair, text)

    # Sorting

    def _sort(self, aliases: list[str]) -> _Sorted:
        found = _Sorted()
        found.clusters = {alias: {} for alias in aliases}
        ends = [(one, other) for one in aliases for other in aliases if one != other]
        prefixes = {f"{one}->{other}.": (one, other) for one, other in ends}
        for key, pair in self._pairs.items():
            if key == _CLUSTERS or key.startswith(declared_providers.KEY):
                continue
            flow = max((each for each in prefixes if key.startswith(each)), key=len, default=None)
            alias = max(
                (each for each in aliases if key.startswith(f"{each}.")), key=len, default=""
            )
            if flow is not None:
                found.flows.setdefault(prefixes[flow], {})[key.removeprefix(flow)] = pair
            elif key in keys.CONNECTOR or key in keys.CLIENT:
                found.top[key] = pair
            elif "->" in key:
                self._account.warn(pair, f"has no effect: names no two of {', '.join(aliases)}")
            elif alias:
                found.clusters[alias][key.removeprefix(f"{alias}.")] = pair
            elif not self._take_ours(key, pair, found):
                found.top[key] = pair
        return found

    def _take_ours(self, key: str, pair: properties_source.Property, found: _Sorted) -> bool:
        for name in _OUR_SECTIONS:
            prefix = f"{_OUR_PREFIX}{name}."
            if key.startswith(prefix):
                found.ours.setdefault(name, {})[key.removeprefix(prefix)] = pair
                return True
        return False

    # Composing

    def _document(self, found: _Sorted, line: int) -> yaml_source.Document:
        plain = {alias: self._plain(alias, found) for alias in found.clusters}
        flows = self._wanted(found)
        ends = _Ends(known={alias for flow in flows for alias in flow})
        sections: dict[str, yaml_source.Node] = {
            _CLUSTERS: section(
                {
                    alias: section({**plain[alias], **self._roles(alias, pairs, ends)}, line)
                    for alias, pairs in found.clusters.items()
                },
                line,
            ),
            "defaults": section(self._defaults(found.top), line),
            "flows": yaml_source.Listing(items=self._flows(found, plain, line), line=line),
            **{name: _our_section(name, pairs) for name, pairs in found.ours.items()},
        }
        return yaml_source.Document(root=section(sections, line), problems=())

    def _plain(self, alias: str, found: _Sorted) -> Pairs:
        """What holds for all clients of a cluster; the file's top fills in what it leaves out."""
        both = {**found.top, **found.clusters[alias]}
        plain = {
            name: pair
            for name, pair in both.items()
            if name in keys.CLIENT and not keys.is_as_here(name, pair.value)
        }
        if not any(map(_is_protocol, self._pairs)) or self._names_protocol(alias):
            return plain
        for name in [name for name in plain if name != keys.BOOTSTRAP]:
            text = "its security.protocol is not set, so connections are PLAINTEXT, as in Java"
            self._account.warn(plain.pop(name), f"has no effect on cluster {alias}: {text}")
        return plain

    def _names_protocol(self, alias: str) -> bool:
        """Does any key say how a client of this cluster connects? If none of the file does, that
        is a mistake; where others say it, what they need stands at the top for them."""
        places = (f"{alias}.", f"{alias}->")
        return any(
            key == keys.PROTOCOL or key.startswith(places) or f"->{alias}." in key
            for key in filter(_is_protocol, self._pairs)
        )

    def _roles(self, alias: str, pairs: Pairs, ends: _Ends) -> Pairs:
        """What holds for one kind of client; everything else is told."""
        found: Pairs = {}
        for name, pair in pairs.items():
            prefix = next((each for each in _ROLES if name.startswith(each)), None)
            if name in keys.CLIENT:
                continue
            if prefix is not None:
                bare = name.removeprefix(prefix)
                if not self._account.takes_client(pair, bare, prefix=prefix):
                    continue
                nobody = ends.without(alias)
                if nobody:
                    self._account.warn(pair, f"has no effect: {nobody}")
                else:
                    found[name] = pair
            elif _is_of_workers(name):
                self._workers[pair.key] = pair
                if name in keys.NOTED:
                    self._account.warn(pair, keys.NOTED[name])
            elif name in keys.CLIENT_KNOWN:
                text = (
                    "has no effect: MirrorMaker 2 hands it to no client that mirrors; write "
                    f"{alias}.consumer.{name}, {alias}.producer.{name} or {alias}.admin.{name}"
                )
                self._account.warn(pair, text)
            else:
                self._tell(name, pair, known=keys.CLIENT_KNOWN)
        return found

    def _defaults(self, top: Pairs) -> Pairs:
        found: Pairs = {}
        for name, pair in top.items():
            if name in keys.CLIENT or name == options.ENABLED.name:
                continue
            if name in keys.CONNECTOR or name in keys.OURS or name in keys.BLACKLISTS:
                if self._account.takes_key(pair, name):
                    found[name] = pair
            elif name in keys.FLOW_ONLY or name.startswith(_NOT_AT_THE_TOP):
                text = "has no effect: MirrorMaker 2 hands it to no flow; write "
                spelled = "A.{}, or A->B.source.{}" if name.startswith("consumer.") else "A.{}"
                spelled = spelled if name.startswith(_ROLES) else "A->B.{}"
                self._account.warn(pair, text + spelled.format(name, name))
            else:
                self._tell(name, pair, known=keys.FLOW | keys.CLIENT)
        return found

    def _tell(self, name: str, pair: properties_source.Property, *, known: Iterable[str]) -> None:
        """Of a key that reaches no client and no flow."""
        if name in keys.REST or name.startswith(keys.WORKER_PREFIXES):
            self._workers[pair.key] = pair
        elif name in keys.WORKER_NAMES:
            text = "has no effect: MirrorMaker 2 hands it to no worker; write B."
            self._account.warn(pair, f"{text}{name}, for flows to B")
        elif name in keys.NOTED:
            self._account.warn(pair, keys.NOTED[name])
        elif not self._is_of_policies(name):
            self._account.warn_unknown(pair, name, known=known)

    def _is_of_policies(self, name: str) -> bool:
        """Of a key at the top: does it reach a policy of the user's, which may know it?"""
        policy = options.POLICY.name
        return name.startswith(_POLICIES) and any(
            key.endswith(policy) and options.is_custom(pair.value)
            for key, pair in self._pairs.items()
        )

    # Flows

    def _wanted(self, found: _Sorted) -> list[tuple[str, str]]:
        """Flows that the file names, and those that a top-level `enabled` switches on."""
        named = sorted(
            found.flows, key=lambda ends: min(pair.line for pair in found.flows[ends].values())
        )
        if options.ENABLED.name not in found.top:
            return named
        aliases = list(found.clusters)
        every = [(one, other) for one in aliases for other in aliases if one != other]
        return [*named, *(ends for ends in every if ends not in named)]

    def _flows(
        self, found: _Sorted, plain: Mapping[str, Pairs], line: int
    ) -> tuple[yaml_source.Section, ...]:
        sections = []
        for source, target in self._wanted(found):
            flow = mirror_maker_flow.Flow(
                source=mirror_maker_flow.End(
                    alias=source, plain=plain[source], own=found.clusters[source]
                ),
                target=mirror_maker_flow.End(
                    alias=target, plain=plain[target], own=found.clusters[target]
                ),
                own=found.flows.get((source, target), {}),
                top=found.top,
            )
            taken = mirror_maker_flow.translate(flow, self._account)
            first = min((pair.line for pair in flow.own.values()), default=line)
            ends = {"from": source, "to": target}
            texts = {key: yaml_source.Scalar(text=text, line=first) for key, text in ends.items()}
            sections.append(section({**texts, **taken}, first))
        return tuple(sections)


def section(
    values: Mapping[str, properties_source.Property | yaml_source.Node], line: int
) -> yaml_source.Section:
    """A section with an entry for each; a pair's entry is at its own line."""
    entries = []
    for key, value in values.items():
        if isinstance(value, properties_source.Property):
            node = yaml_source.Scalar(text=value.value, line=value.line)
            entries.append(yaml_source.Entry(key=key, line=value.line, value=node))
        else:
            entries.append(yaml_source.Entry(key=key, line=value.line, value=value))
    return yaml_source.Section(entries=tuple(entries), line=line)


def _our_section(name: str, pairs: Pairs) -> yaml_source.Section:
    """`mm2.spark.conf.X` is X of the section `conf` in `spark`."""
    line = min(pair.line for pair in pairs.values())
    plain = {key: pair for key, pair in pairs.items() if not key.startswith(_CONF)}
    conf = {key.removeprefix(_CONF): pair for key, pair in pairs.items() if key.startswith(_CONF)}
    if name != "spark" or not conf:
        return section(pairs, line)
    return section({**plain, "conf": section(conf, line)}, line)


def _is_of_workers(name: str) -> bool:
    """Of a key behind a cluster's alias: does it reach the workers of flows to it?"""
    return name in keys.WORKER_NAMES or name.startswith(keys.WORKER_PREFIXES)


def _is_protocol(key: str) -> bool:
    return f".{key}".endswith(f".{keys.PROTOCOL}")


def _split(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _renamed(problem: Problem, lines: Mapping[int, str], names: tuple[str, ...]) -> Problem:
    key, place = problem.key, problem.key
    if key == "flows":
        text = "no flow is enabled: write A->B.enabled = true"
        return Problem(line=problem.line, key="", text=text)
    head, _, rest = key.partition(".")
    if head.startswith("flows["):
        place = names[int(head[len("flows[") : -1])] + (f".{rest}" if rest else "")
    elif head in (_CLUSTERS, "defaults"):
        place = rest
    elif head in _OUR_SECTIONS:
        place = _OUR_PREFIX + key
    at = lines.get(problem.line)
    of_a_key = head in _OUR_SECTIONS or ("." in rest if head == _CLUSTERS else bool(rest))
    if at is not None and of_a_key and at != _CLUSTERS:
        place = at  # inherited, or mapped from another key
    return dataclasses.replace(problem, key=place)
