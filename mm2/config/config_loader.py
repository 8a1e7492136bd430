"""Loads and validates `clusters.yaml` or `mm2.properties`, and reports every problem with its line.

A file with the extension `.properties` is in MirrorMaker 2's format, and `mm2_properties`
translates it into the sections of `clusters.yaml`. The connectors validate the derived connector
configurations, as on any Connect worker. A problem is reported at the line of the file that sets
the key. A flow with custom policy or filter classes is first read with the built-in classes. Its
custom classes are instantiated after the flat properties are complete, because they are configured
with the whole connector configuration.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.api.config_def import ConfigValue
from connect_runtime.api.errors import ConfigError
from connect_runtime.app.worker_settings import WorkerSettingsSource
from connect_runtime.config import config_errors, config_providers, properties_file, yaml_parser
from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from connect_runtime.config.config_providers import (
    ConfigProvider,
    ConfigTransformer,
    ConnectorConfigTransformer,
)
from connect_runtime.config.yaml_parser import YamlDocument, YamlList, YamlScalar, YamlSection
from connect_runtime.system import secure_file_access
from connect_runtime.system.secure_file_access import UntrustedWriter
from mm2.config import (
    clusters_section,
    copy_engine_config,
    cross_flow_checks,
    dedicated_mode,
    endpoints_section,
    flow_connector_configs,
    flows_section,
    hooks_section,
    java_class_placeholders,
    mirror_connector_config,
    mm2_only_keys,
    mm2_properties,
    properties_conversion,
    security_warnings,
    spark_section,
    yaml_section_reader,
)
from mm2.config.clusters_section import ClusterEntries
from mm2.config.dedicated_mode import Props, SourceAndTarget
from mm2.config.flows_section import FlowEntry
from mm2.config.mm2_settings import FlatProperties, FlowClients, Mm2Settings
from mm2.config.yaml_section_reader import ProblemCollector
from mm2.replication import record_transforms
from mm2.topics.flow_config import Flow
from mm2.topics.topic_filters import TopicOrGroupFilter

_VALIDATORS: Mapping[str, Callable[..., list[ConfigValue]]] = {
    "MirrorSourceConnector": mirror_connector_config.validate_source_config,
    "MirrorHeartbeatConnector": mirror_connector_config.validate_heartbeat_config,
    "MirrorCheckpointConnector": mirror_connector_config.validate_checkpoint_config,
}


def validate_connectors(flat: FlatProperties) -> list[ConfigProblem]:
    """Return the problems in the configurations of all connectors, without duplicates."""
    try:
        resolved = flat.resolve(flat.props)
    except ConfigError as error:
        return [ConfigProblem(line=0, key="", text=str(error))]
    found = (
        problem
        for ends in dedicated_mode.list_flows(resolved)
        for name, config in dedicated_mode.derive_connector_configs(flat.props, ends).items()
        if dedicated_mode.can_connector_run(name, config)
        for problem in _validate_connector(flat, ends, name=name, config=config)
    )
    return list(dict.fromkeys(found))


def _validate_connector(
    flat: FlatProperties, ends: SourceAndTarget, *, name: str, config: Mapping[str, str]
) -> Iterator[ConfigProblem]:
    try:
        resolve = flat.resolve(config)
    except ConfigError as error:
        yield ConfigProblem(line=0, key=str(ends), text=str(error))
        return
    for value in _VALIDATORS[name](resolve, load=java_class_placeholders.import_class):
        if not value.error_messages:
            continue
        line, key = _locate_key(flat, ends, value.name)
        secret = bool(config_providers.find_provider_names(config.get(value.name, "")))
        text = "is not allowed" if secret else "; ".join(value.error_messages)
        yield ConfigProblem(line=line, key=key, text=text)


def _locate_key(flat: FlatProperties, ends: SourceAndTarget, key: str) -> tuple[int, str]:
    """Return the line and key of the file's entry that sets a key of a connector's configuration.
    If several entries set the key, the most specific entry is returned."""
    candidates = [f"{ends}.{key}", key]
    for side, alias in (("source.", ends.source), ("target.", ends.target)):
        if key.startswith(side):
            bare = key.removeprefix(side)
            candidates += [f"{alias}.{bare}", f"{alias}.{bare.removeprefix('cluster.')}"]
    if key.startswith(record_transforms.KEY_PREFIXES):  # missing: locate the list with its alias
        listed = key.partition(".")[0]
        candidates += [f"{ends}.{listed}", listed]
    found = next((flat.locations[each] for each in candidates if each in flat.locations), None)
    return found or (0, f"{ends}: {key}")


_SOURCE, _, _CHECKPOINT = dedicated_mode.CONNECTORS


def apply_custom_classes(flows: Iterable[FlowEntry], flat: FlatProperties) -> list[FlowEntry]:
    """Replace the built-in classes in flows with the custom classes that the file names. `flat`
    contains the file's settings as flat properties, which must already be validated."""
    return [
        _apply_custom_classes_to_flow(each, flat)
        if each.has_custom_classes and each.enabled
        else each
        for each in flows
    ]


def _apply_custom_classes_to_flow(item: FlowEntry, flat: FlatProperties) -> FlowEntry:
    before = item.flow
    assert before is not None, "custom classes are applied only to flows of a valid file"
    ends = SourceAndTarget(before.source, before.target)
    source = _derive_connector_config(flat, ends, _SOURCE)
    made = mirror_connector_config.parse_source_config(source).flow
    after = dataclasses.replace(
        before,
        policy=made.policy,
        topics=made.topics,
        config_filter=made.config_filter,
        target_topics=made.target_topics,
        groups=_build_group_filters(before, _derive_connector_config(flat, ends, _CHECKPOINT)),
    )
    shown = {**item.effective, mm2_only_keys.TARGET_TOPICS.name: after.target_topics.value}
    return dataclasses.replace(item, flow=after, effective=shown)


def _build_group_filters(before: Flow, config: Props) -> TopicOrGroupFilter:
    if not dedicated_mode.can_connector_run(_CHECKPOINT, config):
        return before.groups
    return mirror_connector_config.parse_checkpoint_config(config).flow.groups


def _derive_connector_config(flat: FlatProperties, ends: SourceAndTarget, name: str) -> Props:
    return flat.resolve(dedicated_mode.derive_connector_config(flat.props, ends, name))


_KNOWN_SECTIONS = (
    "clusters",
    "defaults",
    "flows",
    "spark",
    "metrics",
    endpoints_section.HEALTH_SECTION,
    "rest",
    "worker",
    hooks_section.HOOKS_SECTION,
    endpoints_section.DRILL_SECTION,
)


_PLUGIN_PATH = "plugin.path"
_TYPED_CHAINS = {"transforms", "predicates"}


def load_config_file(path: pathlib.Path, *, environment: Mapping[str, str]) -> Mm2Settings:
    """Load a configuration file, resolve its placeholders and validate it.

    Relative paths of certificates, `${file:…}` and `${dir:…}` are resolved against the file's
    directory. In properties files they are resolved against the working directory, as in Java.
    Raises `SettingsError` with all problems.
    """
    text, writer = _read_text_and_check_file_writers(path)
    if writer is not None:
        _refuse_untrusted_values(text, path, writer)
    if is_properties_file(path):
        found = parse_mm2_properties(
            text, file=str(path), folder=pathlib.Path.cwd(), environment=environment
        )
    else:
        found = parse_clusters_yaml(
            text, file=str(path), folder=path.parent, environment=environment
        )
    return found if writer is None else _check_write_permissions(found, path, writer)


def _refuse_untrusted_values(text: str, path: pathlib.Path, writer: UntrustedWriter) -> None:
    """Raise `SettingsError` if a file that another user can change contains placeholders `${…}`, or
    keys whose validation imports modules: Python classes and `plugin.path`."""
    values: Sequence[tuple[int, str, str]]
    if is_properties_file(path):
        pairs = properties_file.parse_property_pairs(text, file=str(path))
        values = [(pair.line, pair.key, pair.value) for pair in pairs]
    else:
        values = list(yaml_parser.iterate_scalar_values(yaml_parser.parse_yaml(text).root))
    can_write, remedy = config_errors.explain_other_user_write_access(path, writer)
    because = f"but {can_write}; to allow such references, {remedy}"
    problems = config_errors.build_placeholder_problems(values, because)
    problems += [
        ConfigProblem(
            line=line, key=key, text=f"{danger}, but {can_write}; to allow this key, {remedy}"
        )
        for line, key, value in values
        if (danger := _explain_code_execution_risk(key, value))
    ]
    if problems:
        raise SettingsError(str(path), problems)


def _is_class_key(key: str) -> bool:
    """Return whether the key's value is a class: `….class`, or the type of a transform or
    predicate."""
    *parts, last = key.split(".")
    if last == "type":
        return not _TYPED_CHAINS.isdisjoint(parts[:-1])
    return last == "class" and bool(parts)


def _explain_code_execution_risk(key: str, value: str) -> str:
    """Explain which code the validation of this key would run; return "" if it imports no
    modules. Names of Apache Kafka's classes and names without a package are never imported."""
    if key == _PLUGIN_PATH or key.endswith(f".{_PLUGIN_PATH}"):
        return "can run code"
    name = value.strip()
    has_package = "." in name or ":" in name
    if not _is_class_key(key) or not has_package:
        return ""
    return (
        ""
        if java_class_placeholders.is_kafka_class_name(name)
        else "names a class, which can run code"
    )


def _check_write_permissions(
    found: Mm2Settings, path: pathlib.Path, writer: UntrustedWriter
) -> Mm2Settings:
    """Warn that another user can change the file. Raises `SettingsError` instead if a setting of
    the file can run code."""
    can_write, remedy = config_errors.explain_other_user_write_access(path, writer)
    problems = [
        ConfigProblem(
            line=0, key=key, text=f"can run code, but {can_write}; to allow this key, {remedy}"
        )
        for key in _find_command_keys(found, prefix="mm2." if is_properties_file(path) else "")
    ]
    if problems:
        raise SettingsError(str(path), problems)
    warning = ConfigProblem(
        line=0, key="", text=f"{can_write} and thus control mm2; to prevent it, {remedy}"
    )
    return dataclasses.replace(found, warnings=(warning, *found.warnings))


def _find_command_keys(found: Mm2Settings, *, prefix: str) -> Iterator[str]:
    """Find the keys of the file that can run commands or code on this machine, except those that
    `_refuse_untrusted_values` rejects. These are hooks, a Spark cluster (which gets this user's
    credentials), and all Spark properties (programs, JVM options, packages, plugins) except those
    known to be harmless."""
    if found.hooks:
        yield hooks_section.HOOKS_SECTION
    if not found.spark.is_local:
        yield f"{prefix}spark.master"
    if found.spark.allow_insecure_spark:
        yield f"{prefix}spark.allow.insecure.spark"
    if found.spark.python is not None:
        yield f"{prefix}spark.python"
    for name in found.spark.conf:
        if name not in copy_engine_config.HARMLESS_SPARK_CONF:
            yield f"{prefix}spark.conf.{name}"


def is_properties_file(path: pathlib.Path) -> bool:
    """Return True if the file name indicates MirrorMaker 2's properties format."""
    return path.suffix.lower() == ".properties"


def read_config_text(path: pathlib.Path) -> str:
    """Read the file as text: YAML is UTF-8, properties are ISO-8859-1 (`Utils.loadProps`).

    Raises `SettingsError` if the file cannot be read.
    """
    return _read_text_and_check_file_writers(path)[0]


def _read_text_and_check_file_writers(path: pathlib.Path) -> tuple[str, UntrustedWriter | None]:
    """Read the file's text, and find out whether a user other than this process's user can change
    the file."""
    try:
        content, writer = secure_file_access.read_file_and_find_untrusted_writer(
            path, max_bytes=properties_file.MAX_FILE_BYTES
        )
        return content.decode("iso-8859-1" if is_properties_file(path) else "utf-8"), writer
    except OSError as error:
        raise config_errors.build_unreadable_file_error(
            str(path), f"cannot be read: {error.strerror or error}"
        ) from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise config_errors.build_unreadable_file_error(
            str(path), "is not UTF-8 text", line=line
        ) from None


def parse_clusters_yaml(
    text: str, *, file: str, folder: pathlib.Path, environment: Mapping[str, str]
) -> Mm2Settings:
    """Parse and validate the text of `clusters.yaml`. `file` is the file name for messages.

    Raises `SettingsError` with all problems.
    """
    document = yaml_parser.parse_yaml(text)
    providers = ConfigTransformer(environment=environment, folder=folder)
    collector = ProblemCollector(folder, providers)
    for problem in document.problems:
        collector.report_error(problem.line, "", problem.text)
    found = _read_root_section(collector, document, file=file)
    if collector.problems or found is None:
        raise SettingsError(file, collector.problems)
    assert isinstance(document.root, YamlSection), "it was read"
    flattened = properties_conversion.flatten_file(document.root, folder=folder)
    if flattened.inexpressible:
        said = [ConfigProblem(line=e.line, key=e.key, text=e.text) for e in flattened.inexpressible]
        raise SettingsError(file, said)
    pairs = {pair.key: pair for pair in flattened.pairs}
    flat = FlatProperties(
        props={key: pair.value for key, pair in pairs.items()},
        locations={key: (pair.line, pair.path) for key, pair in pairs.items()},
        defaults=frozenset(key for key, pair in pairs.items() if pair.is_default),
        resolve=_build_placeholder_resolver(
            config_providers.BUILT_IN_PROVIDERS, environment=environment, folder=folder
        ),
    )
    about = flow_connector_configs.create_worker_settings_source(
        file, environment=environment, folder=folder
    )
    return _validate_settings(found, collector, flat, about=about)


def parse_mm2_properties(
    text: str, *, file: str, folder: pathlib.Path, environment: Mapping[str, str]
) -> Mm2Settings:
    """Parse and validate the text of `mm2.properties`. Raises `SettingsError` with all problems."""
    translated = mm2_properties.translate_properties(text)
    providers = ConfigTransformer(
        environment=environment, folder=folder, declared=translated.providers
    )
    collector = ProblemCollector(folder, providers, lenient=True)
    found = None
    if translated.document.root is not None:
        found = _read_root_section(collector, translated.document, file=file)
    mistakes = [*translated.problems, *map(translated.locate_problem, collector.problems)]
    if mistakes or found is None:
        raise SettingsError(file, mistakes)
    flat = FlatProperties(
        props={key: pair.value for key, pair in translated.pairs.items()},
        locations={key: (pair.line, key) for key, pair in translated.pairs.items()},
        resolve=_build_placeholder_resolver(
            translated.providers, environment=environment, folder=folder
        ),
    )
    about = flow_connector_configs.create_worker_settings_source(
        file, environment=environment, folder=folder
    )
    judged = _validate_settings(
        found, collector, flat, about=about, place=translated.locate_problem
    )
    warnings = [*translated.warnings, *judged.warnings]
    ordered = tuple(sorted(dict.fromkeys(warnings), key=lambda warning: warning.line))
    return dataclasses.replace(judged, warnings=ordered)


def _build_placeholder_resolver(
    providers: Mapping[str, ConfigProvider],
    *,
    environment: Mapping[str, str],
    folder: pathlib.Path,
) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    values = ConnectorConfigTransformer(providers=providers, environment=environment, folder=folder)

    def resolve_properties(props: Mapping[str, str]) -> Mapping[str, str]:
        return {key: value or "" for key, value in values(props).items()}

    return resolve_properties


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedSections:
    """Settings read from the file's sections, before the connectors validate their
    configurations."""

    settings: Mm2Settings
    flows: Sequence[FlowEntry]
    """Flows, with built-in classes in place of custom classes."""
    aliases: Collection[str]
    """Aliases of all clusters."""


def _validate_settings(
    read: _ParsedSections,
    collector: ProblemCollector,
    flat: FlatProperties,
    *,
    about: WorkerSettingsSource,
    place: Callable[[ConfigProblem], ConfigProblem] = lambda problem: problem,
) -> Mm2Settings:
    """Validate the connectors and workers, then add flat properties, custom classes and warnings to
    the settings.

    `place` is a function that translates a problem's key to the key in the file. Raises
    `SettingsError` if a connector or worker rejects its configuration, or if flows with custom
    classes conflict with other flows.
    """
    mistakes = validate_connectors(flat)
    mistakes += flow_connector_configs.validate_workers(flat, about)
    flows = read.flows
    if not mistakes and any(each.has_custom_classes for each in flows):
        flows = apply_custom_classes(flows, flat)
        cross_flow_checks.check_flows(collector, flows, aliases=read.aliases)
        mistakes = [*map(place, collector.problems)]
    if mistakes:
        raise SettingsError(read.settings.file, mistakes)
    found = [*map(place, collector.warnings), *security_warnings.find_security_warnings(flat)]
    warnings = sorted(found, key=lambda warning: warning.line)
    return dataclasses.replace(
        read.settings,
        **_build_settings_fields_from_flows(flows, read.settings.effective),
        warnings=tuple(warnings),
        flat=flat,
    )


def _build_settings_fields_from_flows(
    flows: Sequence[FlowEntry], effective: Mapping[str, object]
) -> dict[str, Any]:
    """Build the fields of `Mm2Settings` that depend on the flows."""
    return {
        "flows": tuple(item.flow for item in flows if item.flow is not None and item.enabled),
        "effective": {**effective, "flows": [dict(item.effective) for item in flows]},
    }


def _read_root_section(
    collector: ProblemCollector, document: YamlDocument, *, file: str
) -> _ParsedSections | None:
    root = document.root
    if not isinstance(root, YamlSection):
        if not document.problems:
            collector.report_error(1, "", "the file must have the sections clusters and flows")
        return None
    if _is_strimzi_resource(root):
        text = (
            "the file is a resource of the Strimzi operator, not an mm2 configuration: create a "
            "clusters.yaml with the clusters of spec.clusters (alias, bootstrapServers) and a flow "
            "for each item of spec.mirrors; see the sample deploy/clusters.yaml"
        )
        entry = root.get_entry("kind") or root.entries[0]
        collector.report_error(entry.line, "kind", text)
        return None
    _check_section_names(collector, root)
    known = clusters_section.read_clusters_section(
        collector, _get_section(collector, root, "clusters")
    )
    defaults_entry = root.get_entry("defaults")
    defaults = (
        None
        if defaults_entry is None
        else flows_section.read_defaults_section(collector, defaults_entry)
    )
    flows = _read_flows(collector, root, defaults)
    cross_flow_checks.check_flows(
        collector, [_hide_flow_with_custom_classes(each) for each in flows], aliases=known.aliases
    )
    clients = _resolve_flow_clients(collector, flows, known)
    spark, spark_shown = spark_section.read_spark_section(
        collector, _get_section(collector, root, "spark")
    )
    metrics, metrics_shown = endpoints_section.read_metrics_section(
        collector, _get_section(collector, root, "metrics")
    )
    watch, watch_shown = endpoints_section.read_health_section(
        collector,
        _get_section(collector, root, endpoints_section.HEALTH_SECTION),
        _get_section(collector, root, endpoints_section.DRILL_SECTION),
    )
    free = {
        name: dict(
            endpoints_section.read_unvalidated_section(
                collector, _get_section(collector, root, name), path=name, names=names
            )
        )
        for name, names in (
            ("rest", endpoints_section.REST_KEYS),
            ("worker", endpoints_section.WORKER_KEYS),
        )
    }
    hooks, hooks_shown = hooks_section.read_hooks_section(
        collector, _get_section(collector, root, hooks_section.HOOKS_SECTION)
    )
    effective = {
        "clusters": known.effective_properties,
        "flows": [],
        "spark": dict(spark_shown),
        "metrics": dict(metrics_shown),
        **{name: dict(shown) for name, shown in watch_shown.items() if shown},
        **{name: shown for name, shown in free.items() if shown},
        **({hooks_section.HOOKS_SECTION: hooks_shown} if hooks_shown else {}),
    }
    found = Mm2Settings(
        file=file,
        clusters=known.valid_clusters,
        clients=clients,
        hooks=hooks,
        spark=spark,
        metrics=metrics,
        health=watch,
        secret_environment=collector.providers.referenced_env_variables,
        **_build_settings_fields_from_flows(flows, effective),
    )
    return _ParsedSections(settings=found, flows=flows, aliases=known.aliases)


def _hide_flow_with_custom_classes(item: FlowEntry) -> FlowEntry:
    """Return the flow entry for checks against other flows. If the flow uses custom classes,
    `flow` is None in the returned entry, because the classes are not instantiated yet. Only the
    source and target aliases of such a flow are checked."""
    return dataclasses.replace(item, flow=None) if item.has_custom_classes else item


def _is_strimzi_resource(root: YamlSection) -> bool:
    """Return True if the file is a Kubernetes resource of the Strimzi operator
    (`KafkaMirrorMaker2`)."""
    texts = {
        entry.key: entry.value.text or ""
        for entry in root.entries
        if isinstance(entry.value, YamlScalar)
    }
    return texts.get("apiVersion", "").startswith("kafka.strimzi.io/")


def _check_section_names(collector: ProblemCollector, root: YamlSection) -> None:
    for entry in root.entries:
        if entry.key not in _KNOWN_SECTIONS:
            nearest = config_errors.find_nearest_name(entry.key, _KNOWN_SECTIONS)
            text = "is not a known section"
            allowed = ", ".join(_KNOWN_SECTIONS)
            collector.report_error(entry.line, entry.key, text, allowed=allowed, nearest=nearest)
    for name in ("clusters", "flows"):
        if root.get_entry(name) is None:
            collector.report_error(1, "", f"the section {name} is missing")


def _get_section(collector: ProblemCollector, root: YamlSection, name: str) -> YamlSection:
    """Return the named section. If it is missing or invalid, report the problem and return an empty
    section."""
    entry = root.get_entry(name)
    section = (
        None
        if entry is None
        else yaml_section_reader.convert_to_section(collector, entry, path=name)
    )
    return section or YamlSection(entries=(), line=1 if entry is None else entry.line)


def _read_flows(
    collector: ProblemCollector, root: YamlSection, defaults: YamlSection | None
) -> list[FlowEntry]:
    entry = root.get_entry("flows")
    if entry is None:
        return []
    if not isinstance(entry.value, YamlList):
        collector.report_error(
            entry.line, "flows", "must be a list with one item (from, to, …) per flow"
        )
        return []
    flows = flows_section.read_flows_section(collector, entry.value, defaults)
    if not any(item.enabled for item in flows):
        collector.report_error(entry.line, "flows", "has no enabled flow")
    return flows


def _resolve_flow_clients(
    collector: ProblemCollector, flows: list[FlowEntry], known: ClusterEntries
) -> dict[str, FlowClients]:
    """Resolve the connection settings of the enabled flows' clients, by flow name. Reports
    problems."""
    found: dict[str, FlowClients] = {}
    for item in flows:
        source, target = (
            known.by_alias.get(item.source or ""),
            known.by_alias.get(item.target or ""),
        )
        if source is None or target is None:
            continue
        made, shown = flows_section.resolve_flow_clients(
            collector, item.overrides, source=source, target=target
        )
        item.effective.update(shown)
        if made is not None and item.flow is not None and item.enabled:
            found[item.flow.name] = made
    return found
