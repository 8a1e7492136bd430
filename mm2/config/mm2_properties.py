"""Translates `mm2.properties` into the sections of `clusters.yaml`, with MirrorMaker 2's semantics.

The result is a YAML document tree with the line numbers of the properties file, so that the same
readers validate both formats.

Precedence is the same as in Java's `MirrorMakerConfig` (`clusterProps`, `connectorBaseConfig`).
Unprefixed security and bootstrap server properties apply to clusters that do not set them. Other
client properties apply to a client only with a cluster's prefix and `consumer.`, `producer.` or
`admin.`. `A->B.source.consumer.X` takes precedence over `A.consumer.X`, which takes precedence over
`A->B.consumer.X`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.config import config_errors, config_providers, java_properties
from connect_runtime.config.config_errors import ConfigProblem
from connect_runtime.config.config_providers import ConfigProvider
from connect_runtime.config.java_properties import JavaProperty
from connect_runtime.config.yaml_parser import (
    YamlDocument,
    YamlEntry,
    YamlList,
    YamlNode,
    YamlScalar,
    YamlSection,
)
from mm2.config import flow_config_keys, flows_section, mm2_only_keys, mm2_property_keys
from mm2.replication import record_transforms

Problem = ConfigProblem
Property = JavaProperty
PropertyMap = dict[str, Property]

_EMIT_HEARTBEATS = "emit.heartbeats.enabled"
_CONSUMER, _PRODUCER, _ADMIN = "consumer.", "producer.", "admin."
_SOURCE_CLUSTER, _TARGET_CLUSTER = "source.cluster.", "target.cluster."
_BARE_PREFIXES = (_CONSUMER, _ADMIN)
_MAX_BARE_LENGTH = 24
_OFFSET_SYNC_PREFIXES = ("source.producer.", "target.producer.", "target.consumer.")
"""Property prefixes of clients that only write or read offset syncs, not records."""


@dataclass(slots=True)
class PropertyProblems:
    """Collects errors in a properties file, and warnings about keys that have no effect."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def report_error(self, pair: Property, text: str, *, allowed: str | None = None) -> None:
        self.problems.append(Problem(line=pair.line, key=pair.key, text=text, allowed=allowed))

    def report_warning(self, pair: Property, text: str) -> None:
        found = Problem(line=pair.line, key=pair.key, text=text)
        if found not in self.warnings:  # a key without a prefix is read once per flow
            self.warnings.append(found)

    def add_unknown_key_warning(self, pair: Property, name: str, *, known: Iterable[str]) -> None:
        text, nearest = (
            "has no effect: unknown key",
            config_errors.find_nearest_name(name, known),
        )
        # Hide a long key without a dot: probably a line of PEM text after a missing backslash.
        key = (
            pair.key
            if "." in pair.key or len(pair.key) <= _MAX_BARE_LENGTH
            else config_errors.HIDDEN_VALUE
        )
        self.warnings.append(Problem(line=pair.line, key=key, text=text, nearest=nearest))

    def should_read_client_property(self, pair: Property, name: str, *, prefix: str) -> bool:
        """Return True if this client property has an effect and must be read.

        Warns about other properties, except a property that is set to the value that is fixed in
        mm2, and a consumer's `auto.offset.reset`, which is translated separately.
        """
        if (
            name == mm2_property_keys.AUTO_OFFSET_RESET and prefix.endswith(_CONSUMER)
        ) or mm2_property_keys.is_fixed_value(name, pair.value):
            return False
        if mm2_property_keys.is_validated_property(name):
            return True
        why = mm2_property_keys.explain_ineffective_property(name)
        if why:
            self.report_warning(pair, why)
        else:
            self.add_unknown_key_warning(pair, name, known=mm2_property_keys.KNOWN_CLIENT_KEYS)
        return False

    def should_read_connector_key(self, pair: Property, name: str) -> bool:
        """Return True if this connector key has an effect and must be read. Warns about a key
        without effect, unless the key is set to the value that is fixed in mm2."""
        value = pair.value.strip()
        if (
            name in mm2_property_keys.ACCEPTED_VALUES
            and value in mm2_property_keys.ACCEPTED_VALUES[name]
        ):
            return False
        if name in mm2_property_keys.IGNORED_KEYS:
            self.report_warning(pair, mm2_property_keys.IGNORED_KEYS[name])
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowClusterProperties:
    """Source or target cluster of a flow, with the properties that the file sets for it."""

    alias: str
    plain: PropertyMap
    """Properties that apply to all clients of the cluster."""
    own: PropertyMap
    """All keys with the cluster's prefix."""

    def sets_property(self, role: str, name: str) -> bool:
        return role + name in self.own or name in self.plain


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProperties:
    """Properties that apply to one flow."""

    source: FlowClusterProperties
    target: FlowClusterProperties
    own: PropertyMap
    """Flow properties with the prefix `A->B.`."""
    top: PropertyMap
    """Unprefixed keys."""


def translate_flow_properties(flow: FlowProperties, collector: PropertyProblems) -> PropertyMap:
    """Translate the flow's properties to keys of `clusters.yaml`. Warns about keys that have no
    effect."""
    found: PropertyMap = {flow_config_keys.ENABLED.name: _get_enabled_property(flow)}
    weak: PropertyMap = {}
    clusters_first = (_SOURCE_CLUSTER, _TARGET_CLUSTER)  # later keys override these
    ordered = sorted(flow.own.items(), key=lambda item: not item[0].startswith(clusters_first))
    for name, pair in ordered:
        if name == flow_config_keys.ENABLED.name:
            continue
        if name in mm2_property_keys.FLOW_KEYS:
            if collector.should_read_connector_key(pair, name):
                found[name] = pair
        elif not _translate_client_property(flow, name, collector, found=found, weak=weak):
            of_records = name.startswith(record_transforms.KEY_PREFIXES)
            if of_records or (_has_custom_classes(flow) and not _is_refused_key(name)):
                found[name] = pair
            else:
                _report_untranslated_key(name, pair, collector)
    found = {**weak, **found}
    start = _translate_start_position(flow, collector)
    if start is not None and mm2_only_keys.START.name not in flow.own:
        found[mm2_only_keys.START.name] = start
    return found


def _has_custom_classes(flow: FlowProperties) -> bool:
    """Return True if the flow uses custom classes, which may define their own keys."""
    given = {**flow.top, **flow.own}
    values = (
        given[each.name].value for each in flow_config_keys.CLASS_OPTIONS if each.name in given
    )
    return any(map(flow_config_keys.is_custom_class, values))


def _get_enabled_property(flow: FlowProperties) -> Property:
    """Return the `enabled` property of the flow, as in `MirrorMakerConfig.clusterPairs`.

    `enabled` without a prefix applies only to flows that emit heartbeats, because other flows have
    no worker (herder).
    """
    own, top = (
        flow.own.get(flow_config_keys.ENABLED.name),
        flow.top.get(flow_config_keys.ENABLED.name),
    )
    if own is not None:
        return own
    heartbeats = flow.own.get(_EMIT_HEARTBEATS) or flow.top.get(_EMIT_HEARTBEATS)
    if top is not None and (heartbeats is None or heartbeats.value.lower() == "true"):
        return top
    line = min((pair.line for pair in flow.own.values()), default=0)
    return Property(key=f"{flow.source.alias}->{flow.target.alias}", value="false", line=line)


def _translate_client_property(
    flow: FlowProperties,
    name: str,
    collector: PropertyProblems,
    *,
    found: PropertyMap,
    weak: PropertyMap,
) -> bool:
    """Translate a client property. Returns False if the key is not a client property.

    The property is added to `found`, or to `weak` if the cluster's own property takes precedence
    over it.
    """
    pair = flow.own[name]
    for prefix in flows_section.OVERRIDE_PREFIXES:
        if name.startswith(prefix):
            bare = name.removeprefix(prefix)
            if collector.should_read_client_property(pair, bare, prefix=prefix):
                found[name] = pair
            return True
    for prefix, places in _list_clients_by_prefix(flow).items():
        if name.startswith(prefix):
            bare = name.removeprefix(prefix)
            if bare in mm2_property_keys.CLIENT_KEYS or (
                prefix in _BARE_PREFIXES
                and collector.should_read_client_property(pair, bare, prefix=prefix)
            ):
                _translate_low_precedence_property(
                    pair, bare, places=places, collector=collector, weak=weak
                )
            elif prefix not in _BARE_PREFIXES:
                collector.report_warning(
                    pair, "has no effect, as in MirrorMaker 2: use the prefix of the cluster"
                )
            return True
    return False


_LowPrecedenceTarget = tuple[str, FlowClusterProperties, str]


def _list_clients_by_prefix(flow: FlowProperties) -> dict[str, tuple[_LowPrecedenceTarget, ...]]:
    """Return the low-precedence prefixes of flow properties, each with the clients to which it
    applies. The clusters' own properties take precedence over properties with these prefixes.

    Each client is a tuple: the client's prefix in a flow, its cluster, and its prefix in the
    cluster's properties.
    """
    reading = (flows_section.CONSUMER_PREFIX, flow.source, _CONSUMER)
    source_admin = (flows_section.SOURCE_ADMIN_PREFIX, flow.source, _ADMIN)
    target_admin = (flows_section.TARGET_ADMIN_PREFIX, flow.target, _ADMIN)
    return {
        _CONSUMER: (reading,),
        _ADMIN: (source_admin, target_admin),
        _SOURCE_CLUSTER: (reading, source_admin),
        _TARGET_CLUSTER: (target_admin,),
    }


def _translate_low_precedence_property(
    pair: Property,
    name: str,
    *,
    places: tuple[_LowPrecedenceTarget, ...],
    collector: PropertyProblems,
    weak: PropertyMap,
) -> None:
    free = [prefix for prefix, end, role in places if not end.sets_property(role, name)]
    weak.update({prefix + name: pair for prefix in free})
    if not free:
        prefix, end, _ = places[0]
        collector.report_warning(
            pair,
            f"has no effect, as in MirrorMaker 2: {name} of cluster {end.alias} takes precedence; "
            f"use A->B.{prefix}{name}",
        )


def _translate_start_position(flow: FlowProperties, collector: PropertyProblems) -> Property | None:
    """Translate the source consumer's `auto.offset.reset` to the key `start`."""
    candidates = (
        flow.own.get(flows_section.CONSUMER_PREFIX + mm2_property_keys.AUTO_OFFSET_RESET),
        flow.source.own.get(_CONSUMER + mm2_property_keys.AUTO_OFFSET_RESET),
        flow.own.get(_CONSUMER + mm2_property_keys.AUTO_OFFSET_RESET),
    )
    found = next((pair for pair in candidates if pair is not None), None)
    if found is None:
        return None
    if found.value.strip() not in ("earliest", "latest"):
        collector.report_error(found, "is not allowed", allowed="earliest or latest")
        return None
    return found


def _is_refused_key(name: str) -> bool:
    families = (_PRODUCER, *_OFFSET_SYNC_PREFIXES, *flow_config_keys.REFUSED_PREFIXES)
    return name in flow_config_keys.REFUSED_KEYS or name.startswith(families)


def _report_untranslated_key(name: str, pair: Property, collector: PropertyProblems) -> None:
    if name.startswith(_PRODUCER):
        text = (
            "has no effect on replication, as in MirrorMaker 2: use the prefix "
            "A->B.producer.override."
        )
        collector.report_warning(pair, text)
    elif name.startswith(_OFFSET_SYNC_PREFIXES):
        prefix = next(each for each in _OFFSET_SYNC_PREFIXES if name.startswith(each))
        collector.should_read_client_property(pair, name.removeprefix(prefix), prefix=prefix)
    elif _is_refused_key(name):
        collector.report_warning(pair, "has no effect: mm2 does not support this Connect key")
    else:
        collector.add_unknown_key_warning(pair, name, known=mm2_property_keys.FLOW_KEYS)


_CLUSTERS_KEY = "clusters"
_EXTENSION_SECTIONS = ("spark", "metrics", "health", "drill")
_EXTENSION_PREFIX = "mm2."
_SPARK_CONF = "conf."
_CLIENT_PREFIXES = ("consumer.", "producer.", "admin.")
_NOT_TOP_LEVEL = (*_CLIENT_PREFIXES, *record_transforms.KEY_PREFIXES)
_POLICY_PREFIX = "replication.policy."


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedProperties:
    """A properties file translated into the sections of `clusters.yaml`."""

    document: YamlDocument
    """The translated document as a YAML tree. Its root is None if the cluster aliases could not be
    read."""
    providers: Mapping[str, ConfigProvider]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    keys: Mapping[int, str]
    """Property keys of the file by line number."""
    names: tuple[str, ...]
    """Flow names in the order of the document."""
    pairs: Mapping[str, JavaProperty] = field(default_factory=dict)
    """All properties of the file."""
    workers: Mapping[str, JavaProperty] = field(default_factory=dict)
    """Properties for Connect workers, which are not part of any section."""

    def locate_problem(self, problem: Problem) -> Problem:
        """Return the problem with its `clusters.yaml` key replaced by the key that the properties
        file uses."""
        return _rename_problem_key(problem, self.keys, self.names)


def translate_properties(text: str) -> TranslatedProperties:
    """Translate the text of a properties file. Problems are part of the result."""
    try:
        entries = java_properties.parse_property_entries(text)
    except ValueError as error:
        line, _, words = str(error).removeprefix("line ").partition(": ")
        return _create_empty_translation(Problem(line=int(line), key="", text=words))
    found = _PropertiesTranslator(entries).translate_file()
    return dataclasses.replace(found, warnings=(*found.warnings, *_warn_about_non_ascii(text)))


def _warn_about_non_ascii(text: str) -> Iterable[Problem]:
    """Yield a warning for non-ASCII characters, because most editors write UTF-8 but Kafka reads
    ISO-8859-1."""
    words = "has non-ASCII characters, which are read as ISO-8859-1, as in Java: use \\uXXXX"
    return (
        Problem(line=number, key="", text=words)
        for number in java_properties.find_non_ascii_lines(text)
    )


def _create_empty_translation(*found: Problem) -> TranslatedProperties:
    return TranslatedProperties(
        document=YamlDocument(root=None, problems=()),
        providers={},
        problems=found,
        warnings=(),
        keys={},
        names=(),
    )


@dataclass(slots=True)
class _GroupedKeys:
    """Keys of the file, grouped by what they configure."""

    top: PropertyMap = field(default_factory=dict)
    clusters: dict[str, PropertyMap] = field(default_factory=dict)
    flows: dict[tuple[str, str], PropertyMap] = field(default_factory=dict)
    ours: dict[str, PropertyMap] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FlowAliases:
    """Aliases of the clusters that are the source or target of a flow."""

    known: Collection[str]

    def explain_why_unused(self, alias: str) -> str:
        """Return the reason why client properties of the cluster have no effect, or "" if a flow
        uses the cluster."""
        return "" if alias in self.known else f"no flow of this file uses cluster {alias}"


class _PropertiesTranslator:
    """Translates the properties of one file into the sections of `clusters.yaml`."""

    def __init__(self, entries: Iterable[JavaProperty]) -> None:
        self._collector = PropertyProblems()
        self._pairs: PropertyMap = {}
        self._lines: dict[int, str] = {}
        self._workers: PropertyMap = {}
        for pair in entries:
            earlier = self._pairs.pop(pair.key, None)
            if earlier is not None:
                text = f"has no effect: the key is set again on line {pair.line}"
                self._collector.report_warning(earlier, text)
            self._pairs[pair.key] = pair
            self._lines[pair.line] = pair.key

    def translate_file(self) -> TranslatedProperties:
        listed = self._pairs.get(_CLUSTERS_KEY)
        aliases = [] if listed is None else _split_list(listed.value)
        if listed is None or not aliases:
            line = 1 if listed is None else listed.line
            text = "is missing: it lists the cluster aliases, such as clusters = east, west"
            return _create_empty_translation(Problem(line=line, key=_CLUSTERS_KEY, text=text))
        providers = config_providers.read_declared_providers(
            self._pairs,
            refuse=self._collector.problems.append,
            warn=self._collector.warnings.append,
        )
        self._warn_unknown_providers(providers)
        found = self._group_file_keys(list(dict.fromkeys(aliases)))
        document = self._build_document(found, listed.line)
        names = [f"{source}->{target}" for source, target in self._list_flows(found)]
        return TranslatedProperties(
            document=document,
            providers=providers,
            problems=tuple(self._collector.problems),
            warnings=tuple(self._collector.warnings),
            keys=self._lines,
            names=tuple(names),
            pairs=self._pairs,
            workers=self._workers,
        )

    def _warn_unknown_providers(self, providers: Mapping[str, ConfigProvider]) -> None:
        for pair in self._pairs.values():
            for name in config_providers.find_provider_names(pair.value):
                if name not in providers:
                    text = (
                        f"the placeholder of provider {name!r} is used literally because "
                        f"{config_providers.PROVIDERS_KEY} does not declare the provider"
                    )
                    self._collector.report_warning(pair, text)

    # Sorting

    def _group_file_keys(self, aliases: list[str]) -> _GroupedKeys:
        found = _GroupedKeys()
        found.clusters = {alias: {} for alias in aliases}
        ends = [(one, other) for one in aliases for other in aliases if one != other]
        prefixes = {f"{one}->{other}.": (one, other) for one, other in ends}
        for key, pair in self._pairs.items():
            if key == _CLUSTERS_KEY or key.startswith(config_providers.PROVIDERS_KEY):
                continue
            flow = max((each for each in prefixes if key.startswith(each)), key=len, default=None)
            alias = max(
                (each for each in aliases if key.startswith(f"{each}.")), key=len, default=""
            )
            if flow is not None:
                found.flows.setdefault(prefixes[flow], {})[key.removeprefix(flow)] = pair
            elif key in mm2_property_keys.CONNECTOR_KEYS or key in mm2_property_keys.CLIENT_KEYS:
                found.top[key] = pair
            elif "->" in key:
                self._collector.report_warning(
                    pair,
                    "has no effect: its prefix does not name a flow between two of the clusters "
                    f"{', '.join(aliases)}",
                )
            elif alias:
                found.clusters[alias][key.removeprefix(f"{alias}.")] = pair
            elif not self._add_extension_key(key, pair, found):
                found.top[key] = pair
        return found

    def _add_extension_key(self, key: str, pair: JavaProperty, found: _GroupedKeys) -> bool:
        for name in _EXTENSION_SECTIONS:
            prefix = f"{_EXTENSION_PREFIX}{name}."
            if key.startswith(prefix):
                found.ours.setdefault(name, {})[key.removeprefix(prefix)] = pair
                return True
        return False

    # Composing

    def _build_document(self, found: _GroupedKeys, line: int) -> YamlDocument:
        plain = {alias: self._collect_plain_properties(alias, found) for alias in found.clusters}
        flows = self._list_flows(found)
        ends = _FlowAliases(known={alias for flow in flows for alias in flow})
        sections: dict[str, YamlNode] = {
            _CLUSTERS_KEY: build_yaml_section(
                {
                    alias: build_yaml_section(
                        {**plain[alias], **self._collect_client_properties(alias, pairs, ends)},
                        line,
                    )
                    for alias, pairs in found.clusters.items()
                },
                line,
            ),
            "defaults": build_yaml_section(self._collect_defaults(found.top), line),
            "flows": YamlList(items=self._build_flow_sections(found, plain, line), line=line),
            **{name: _build_extension_section(name, pairs) for name, pairs in found.ours.items()},
        }
        return YamlDocument(root=build_yaml_section(sections, line), problems=())

    def _collect_plain_properties(self, alias: str, found: _GroupedKeys) -> PropertyMap:
        """Collect the properties for all clients of a cluster, with unprefixed keys as the
        fallback."""
        both = {**found.top, **found.clusters[alias]}
        plain = {
            name: pair
            for name, pair in both.items()
            if name in mm2_property_keys.CLIENT_KEYS
            and not mm2_property_keys.is_fixed_value(name, pair.value)
        }
        if not any(map(_is_security_protocol_key, self._pairs)) or self._sets_security_protocol(
            alias
        ):
            return plain
        for name in [name for name in plain if name != mm2_property_keys.BOOTSTRAP_SERVERS]:
            text = (
                "security.protocol of this cluster is not set, so connections are PLAINTEXT, as "
                "in Java"
            )
            self._collector.report_warning(
                plain.pop(name), f"has no effect on cluster {alias}: {text}"
            )
        return plain

    def _sets_security_protocol(self, alias: str) -> bool:
        """Return True if any key sets the security protocol of a client of this cluster."""
        places = (f"{alias}.", f"{alias}->")
        return any(
            key == mm2_property_keys.SECURITY_PROTOCOL
            or key.startswith(places)
            or f"->{alias}." in key
            for key in filter(_is_security_protocol_key, self._pairs)
        )

    def _collect_client_properties(
        self, alias: str, pairs: PropertyMap, ends: _FlowAliases
    ) -> PropertyMap:
        """Collect the properties of a cluster that have a client type prefix. Warns about keys that
        have no effect."""
        found: PropertyMap = {}
        for name, pair in pairs.items():
            prefix = next((each for each in _CLIENT_PREFIXES if name.startswith(each)), None)
            if name in mm2_property_keys.CLIENT_KEYS:
                continue
            if prefix is not None:
                bare = name.removeprefix(prefix)
                if not self._collector.should_read_client_property(pair, bare, prefix=prefix):
                    continue
                nobody = ends.explain_why_unused(alias)
                if nobody:
                    self._collector.report_warning(pair, f"has no effect: {nobody}")
                else:
                    found[name] = pair
            elif _applies_to_workers(name):
                self._workers[pair.key] = pair
                if name in mm2_property_keys.IGNORED_KEYS:
                    self._collector.report_warning(pair, mm2_property_keys.IGNORED_KEYS[name])
            elif name in mm2_property_keys.KNOWN_CLIENT_KEYS:
                text = (
                    "has no effect: MirrorMaker 2 does not pass it to replication clients; use "
                    f"{alias}.consumer.{name}, {alias}.producer.{name} or {alias}.admin.{name}"
                )
                self._collector.report_warning(pair, text)
            else:
                self._report_unused_key(name, pair, known=mm2_property_keys.KNOWN_CLIENT_KEYS)
        return found

    def _collect_defaults(self, top: PropertyMap) -> PropertyMap:
        found: PropertyMap = {}
        for name, pair in top.items():
            if name in mm2_property_keys.CLIENT_KEYS or name == flow_config_keys.ENABLED.name:
                continue
            if (
                name in mm2_property_keys.CONNECTOR_KEYS
                or name in mm2_only_keys.NAMES
                or name in mm2_property_keys.BLACKLIST_KEYS
            ):
                if self._collector.should_read_connector_key(pair, name):
                    found[name] = pair
            elif name in mm2_property_keys.FLOW_ONLY_KEYS or name.startswith(_NOT_TOP_LEVEL):
                text = "has no effect: MirrorMaker 2 does not pass it to flows; use "
                spelled = "A.{}, or A->B.source.{}" if name.startswith("consumer.") else "A.{}"
                spelled = spelled if name.startswith(_CLIENT_PREFIXES) else "A->B.{}"
                self._collector.report_warning(pair, text + spelled.format(name, name))
            else:
                self._report_unused_key(
                    name, pair, known=mm2_property_keys.FLOW_KEYS | mm2_property_keys.CLIENT_KEYS
                )
        return found

    def _report_unused_key(self, name: str, pair: JavaProperty, *, known: Iterable[str]) -> None:
        """Record the key if it applies to workers. Otherwise warn that it does not apply to any
        client, flow or worker."""
        if name in mm2_property_keys.REST_KEYS or name.startswith(
            mm2_property_keys.WORKER_PREFIXES
        ):
            self._workers[pair.key] = pair
        elif name in mm2_property_keys.WORKER_NAMES:
            self._collector.report_warning(
                pair,
                "has no effect: MirrorMaker 2 does not pass this key to workers; for flows to "
                f"cluster B, use B.{name}",
            )
        elif name in mm2_property_keys.IGNORED_KEYS:
            self._collector.report_warning(pair, mm2_property_keys.IGNORED_KEYS[name])
        elif not self._belongs_to_custom_policy(name):
            self._collector.add_unknown_key_warning(pair, name, known=known)

    def _belongs_to_custom_policy(self, name: str) -> bool:
        """Return True if an unprefixed key is passed to a custom policy class, which may define
        it."""
        policy = flow_config_keys.POLICY.name
        return name.startswith(_POLICY_PREFIX) and any(
            key.endswith(policy) and flow_config_keys.is_custom_class(pair.value)
            for key, pair in self._pairs.items()
        )

    # Flows

    def _list_flows(self, found: _GroupedKeys) -> list[tuple[str, str]]:
        """List the flows that the file names, and also all other pairs of clusters if `enabled` is
        set without a prefix."""
        named = sorted(
            found.flows, key=lambda ends: min(pair.line for pair in found.flows[ends].values())
        )
        if flow_config_keys.ENABLED.name not in found.top:
            return named
        aliases = list(found.clusters)
        every = [(one, other) for one in aliases for other in aliases if one != other]
        return [*named, *(ends for ends in every if ends not in named)]

    def _build_flow_sections(
        self, found: _GroupedKeys, plain: Mapping[str, PropertyMap], line: int
    ) -> tuple[YamlSection, ...]:
        sections = []
        for source, target in self._list_flows(found):
            flow = FlowProperties(
                source=FlowClusterProperties(
                    alias=source, plain=plain[source], own=found.clusters[source]
                ),
                target=FlowClusterProperties(
                    alias=target, plain=plain[target], own=found.clusters[target]
                ),
                own=found.flows.get((source, target), {}),
                top=found.top,
            )
            taken = translate_flow_properties(flow, self._collector)
            first = min((pair.line for pair in flow.own.values()), default=line)
            ends = {"from": source, "to": target}
            texts = {key: YamlScalar(text=text, line=first) for key, text in ends.items()}
            sections.append(build_yaml_section({**texts, **taken}, first))
        return tuple(sections)


def build_yaml_section(values: Mapping[str, JavaProperty | YamlNode], line: int) -> YamlSection:
    """Build a YAML section with an entry for each value. A property keeps its line number."""
    entries = []
    for key, value in values.items():
        if isinstance(value, JavaProperty):
            node = YamlScalar(text=value.value, line=value.line)
            entries.append(YamlEntry(key=key, line=value.line, value=node))
        else:
            entries.append(YamlEntry(key=key, line=value.line, value=value))
    return YamlSection(entries=tuple(entries), line=line)


def _build_extension_section(name: str, pairs: PropertyMap) -> YamlSection:
    """Build the section that contains the keys with the prefix `mm2.`. `mm2.spark.conf.X` becomes
    the key X in `spark.conf`."""
    line = min(pair.line for pair in pairs.values())
    plain = {key: pair for key, pair in pairs.items() if not key.startswith(_SPARK_CONF)}
    conf = {
        key.removeprefix(_SPARK_CONF): pair
        for key, pair in pairs.items()
        if key.startswith(_SPARK_CONF)
    }
    if name != "spark" or not conf:
        return build_yaml_section(pairs, line)
    return build_yaml_section({**plain, "conf": build_yaml_section(conf, line)}, line)


def _applies_to_workers(name: str) -> bool:
    """Return True if a key with a cluster's prefix applies to the workers of flows to that
    cluster."""
    return name in mm2_property_keys.WORKER_NAMES or name.startswith(
        mm2_property_keys.WORKER_PREFIXES
    )


def _is_security_protocol_key(key: str) -> bool:
    return f".{key}".endswith(f".{mm2_property_keys.SECURITY_PROTOCOL}")


def _split_list(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _rename_problem_key(
    problem: Problem, lines: Mapping[int, str], names: tuple[str, ...]
) -> Problem:
    key, place = problem.key, problem.key
    if key == "flows":
        text = "no flow is enabled: set A->B.enabled = true"
        return Problem(line=problem.line, key="", text=text)
    head, _, rest = key.partition(".")
    if head.startswith("flows["):
        place = names[int(head[len("flows[") : -1])] + (f".{rest}" if rest else "")
    elif head in (_CLUSTERS_KEY, "defaults"):
        place = rest
    elif head in _EXTENSION_SECTIONS:
        place = _EXTENSION_PREFIX + key
    at = lines.get(problem.line)
    of_a_key = head in _EXTENSION_SECTIONS or ("." in rest if head == _CLUSTERS_KEY else bool(rest))
    if at is not None and of_a_key and at != _CLUSTERS_KEY:
        place = at  # inherited, or mapped from another key
    return dataclasses.replace(problem, key=place)
