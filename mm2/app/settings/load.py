"""From `clusters.yaml` or `mm2.properties` to checked settings, or to every mistake at once.

A file whose name ends in `.properties` is MirrorMaker 2's: `mirror_maker` turns it into the
sections of the other form, which is all that the readers here know.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.adapters.config import value_providers, yaml_source
from connect_runtime.app.settings import (
    connector_values,
    problems,
    properties_file,
    worker_reader,
)
from connect_runtime.system import file_bytes, private_folder
from mm2.app.settings import (
    clusters,
    cross_checks,
    custom_classes,
    endpoint_reader,
    flatten,
    flow_clients,
    flow_reader,
    hooks_reader,
    judge,
    mirror_maker,
    reader,
    security_warnings,
    settings,
    spark_reader,
    workers,
)

_SECTIONS = (
    "clusters",
    "defaults",
    "flows",
    "spark",
    "metrics",
    endpoint_reader.HEALTH,
    "rest",
    "worker",
    hooks_reader.PATH,
    endpoint_reader.DRILL,
)


def load(path: pathlib.Path, *, environment: Mapping[str, str]) -> settings.Settings:
    """Read, fill placeholders, check. Raises `SettingsError` with everything that is wrong.

    Relative paths, in `${file:…}`, `${dir:…}` and locations of PEM files, start at the file's
    own folder; those in properties files, as in Java, where this process was started.
    """
    text = read_text(path)
    if is_properties(path):
        found = parse_properties(
            text, file=str(path), folder=pathlib.Path.cwd(), environment=environment
        )
    else:
        found = parse(text, file=str(path), folder=path.parent, environment=environment)
    return _check_file_permissions(found, path)


def _check_file_permissions(found: settings.Settings, path: pathlib.Path) -> settings.Settings:
    """Refuse commands from a file that other users can change; else warn of such a file. Raises
    `SettingsError`."""
    try:
        if not private_folder.others_can_write(path):
            return found
    except OSError:
        return found  # removed since it was read
    remedy = f"chmod go-w {shlex.quote(str(path))}"
    if found.hooks:
        text = (
            f"runs commands, but other users can write to this file; to allow hooks, run: {remedy}"
        )
        raise problems.SettingsError(str(path), [problems.Problem(line=0, key="hooks", text=text)])
    text = f"other users can write to this file and so control mm2; to prevent it, run: {remedy}"
    warning = problems.Problem(line=0, key="", text=text)
    return dataclasses.replace(found, warnings=(warning, *found.warnings))


def is_properties(path: pathlib.Path) -> bool:
    """Is the file of MirrorMaker 2's form, by its name?"""
    return path.suffix.lower() == ".properties"


def read_text(path: pathlib.Path) -> str:
    """Raises `SettingsError`. Properties are ISO-8859-1, as Kafka's `Utils.loadProps` has them."""
    if is_properties(path):
        return properties_file.text(path)
    try:
        content = file_bytes.read(path, most=properties_file.BYTES_MAX)
        return content.decode("utf-8")
    except OSError as error:
        raise problems.unreadable(str(path), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise problems.unreadable(str(path), "is not UTF-8 text", line=line) from None


def parse(
    text: str, *, file: str, folder: pathlib.Path, environment: Mapping[str, str]
) -> settings.Settings:
    """As `load`, of text that is already at hand; `file` is for messages."""
    document = yaml_source.parse(text)
    providers = value_providers.ValueProviders(environment=environment, folder=folder)
    account = reader.Account(folder, providers)
    for problem in document.problems:
        account.note(problem.line, "", problem.text)
    found = _read_root(account, document, file=file)
    if account.problems or found is None:
        raise problems.SettingsError(file, account.problems)
    assert isinstance(document.root, yaml_source.Section), "it was read"
    flattened = flatten.flatten(document.root, folder=folder)
    if flattened.unsaid:
        said = [problems.Problem(line=e.line, key=e.key, text=e.text) for e in flattened.unsaid]
        raise problems.SettingsError(file, said)
    pairs = {pair.key: pair for pair in flattened.pairs}
    flat = settings.Flat(
        props={key: pair.value for key, pair in pairs.items()},
        places={key: (pair.line, pair.path) for key, pair in pairs.items()},
        defaults=frozenset(key for key, pair in pairs.items() if pair.is_default),
        resolve=_resolve(value_providers.BUILT_IN, environment=environment, folder=folder),
    )
    about = workers.source(file, environment=environment, folder=folder)
    return _judged(found, account, flat, about=about)


def parse_properties(
    text: str, *, file: str, folder: pathlib.Path, environment: Mapping[str, str]
) -> settings.Settings:
    """As `parse`, of text in MirrorMaker 2's form."""
    translated = mirror_maker.translate(text)
    providers = value_providers.ValueProviders(
        environment=environment, folder=folder, declared=translated.providers
    )
    account = reader.Account(folder, providers, lenient=True)
    found = None
    if translated.document.root is not None:
        found = _read_root(account, translated.document, file=file)
    mistakes = [*translated.problems, *map(translated.place, account.problems)]
    if mistakes or found is None:
        raise problems.SettingsError(file, mistakes)
    flat = settings.Flat(
        props={key: pair.value for key, pair in translated.pairs.items()},
        places={key: (pair.line, key) for key, pair in translated.pairs.items()},
        resolve=_resolve(translated.providers, environment=environment, folder=folder),
    )
    about = workers.source(file, environment=environment, folder=folder)
    judged = _judged(found, account, flat, about=about, place=translated.place)
    warnings = [*translated.warnings, *judged.warnings]
    ordered = tuple(sorted(dict.fromkeys(warnings), key=lambda warning: warning.line))
    return dataclasses.replace(judged, warnings=ordered)


def _resolve(
    providers: Mapping[str, value_providers.Provider],
    *,
    environment: Mapping[str, str],
    folder: pathlib.Path,
) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    values = connector_values.ConnectorValues(
        providers=providers, environment=environment, folder=folder
    )

    def filled(props: Mapping[str, str]) -> Mapping[str, str]:
        return {key: value or "" for key, value in values(props).items()}

    return filled


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What the sections say; `flows` have shipped classes in the place of the user's."""

    settings: settings.Settings
    flows: Sequence[flow_reader.FlowRead]
    aliases: Collection[str]


def _judged(
    read: _Read,
    account: reader.Account,
    flat: settings.Flat,
    *,
    about: worker_reader.Source,
    place: Callable[[problems.Problem], problems.Problem] = lambda problem: problem,
) -> settings.Settings:
    """The settings with these properties, if connectors take what is made of them, and flows with
    classes of the user's go with the others. `place` says where the file has what is wrong."""
    mistakes = judge.mistakes(flat)
    mistakes += workers.mistakes(flat, about)
    flows = read.flows
    if not mistakes and any(each.custom for each in flows):
        flows = custom_classes.taken_up(flows, flat)
        cross_checks.check(account, flows, aliases=read.aliases)
        mistakes = [*map(place, account.problems)]
    if mistakes:
        raise problems.SettingsError(read.settings.file, mistakes)
    found = [*map(place, account.warnings), *security_warnings.warnings(flat)]
    warnings = sorted(found, key=lambda warning: warning.line)
    return dataclasses.replace(
        read.settings,
        **_of_flows(flows, read.settings.effective),
        warnings=tuple(warnings),
        flat=flat,
    )


def _of_flows(
    flows: Sequence[flow_reader.FlowRead], effective: Mapping[str, object]
) -> dict[str, Any]:
    """Fields of the settings."""
    return {
        "flows": tuple(item.flow for item in flows if item.flow is not None and item.enabled),
        "effective": {**effective, "flows": [dict(item.effective) for item in flows]},
    }


def _read_root(
    account: reader.Account, document: yaml_source.Document, *, file: str
) -> _Read | None:
    root = document.root
    if not isinstance(root, yaml_source.Section):
        if not document.problems:
            account.note(1, "", "has to hold the sections clusters and flows")
        return None
    if _is_strimzi(root):
        text = (
            "the file is a resource of the Strimzi operator, not a configuration of mm2: write a "
            "clusters.yaml with the clusters of spec.clusters (alias, bootstrapServers) and a flow "
            "for each item of spec.mirrors; deploy/clusters.yaml is a sample"
        )
        entry = root.get("kind") or root.entries[0]
        account.note(entry.line, "kind", text)
        return None
    _check_sections(account, root)
    known = clusters.read(account, _section(account, root, "clusters"))
    defaults_entry = root.get("defaults")
    defaults = (
        None if defaults_entry is None else flow_reader.read_defaults(account, defaults_entry)
    )
    flows = _read_flows(account, root, defaults)
    cross_checks.check(account, [_shipped(each) for each in flows], aliases=known.aliases)
    clients = _read_clients(account, flows, known)
    spark, spark_shown = spark_reader.read(account, _section(account, root, "spark"))
    metrics, metrics_shown = endpoint_reader.read_metrics(
        account, _section(account, root, "metrics")
    )
    watch, watch_shown = endpoint_reader.read_watch(
        account,
        _section(account, root, endpoint_reader.HEALTH),
        _section(account, root, endpoint_reader.DRILL),
    )
    free = {
        name: dict(
            endpoint_reader.read_free(
                account, _section(account, root, name), path=name, names=names
            )
        )
        for name, names in (("rest", endpoint_reader.REST), ("worker", endpoint_reader.WORKER))
    }
    hooks, hooks_shown = hooks_reader.read(account, _section(account, root, hooks_reader.PATH))
    effective = {
        "clusters": known.effective,
        "flows": [],
        "spark": dict(spark_shown),
        "metrics": dict(metrics_shown),
        **{name: dict(shown) for name, shown in watch_shown.items() if shown},
        **{name: shown for name, shown in free.items() if shown},
        **({hooks_reader.PATH: hooks_shown} if hooks_shown else {}),
    }
    found = settings.Settings(
        file=file,
        clusters=known.usable,
        clients=clients,
        hooks=hooks,
        spark=spark,
        metrics=metrics,
        watch=watch,
        secret_environment=account.providers.environment_names,
        **_of_flows(flows, effective),
    )
    return _Read(settings=found, flows=flows, aliases=known.aliases)


def _shipped(item: flow_reader.FlowRead) -> flow_reader.FlowRead:
    """What can be told of it across flows before its classes are made: no more than its ends."""
    return dataclasses.replace(item, flow=None) if item.custom else item


def _is_strimzi(root: yaml_source.Section) -> bool:
    """Is it a Kubernetes resource of the Strimzi operator, such as `KafkaMirrorMaker2`?"""
    texts = {
        entry.key: entry.value.text or ""
        for entry in root.entries
        if isinstance(entry.value, yaml_source.Scalar)
    }
    return texts.get("apiVersion", "").startswith("kafka.strimzi.io/")


def _check_sections(account: reader.Account, root: yaml_source.Section) -> None:
    for entry in root.entries:
        if entry.key not in _SECTIONS:
            nearest = problems.nearest(entry.key, _SECTIONS)
            text = "is not a known section"
            allowed = ", ".join(_SECTIONS)
            account.note(entry.line, entry.key, text, allowed=allowed, nearest=nearest)
    for name in ("clusters", "flows"):
        if root.get(name) is None:
            account.note(1, "", f"the section {name} is missing")


def _section(account: reader.Account, root: yaml_source.Section, name: str) -> yaml_source.Section:
    """The named section; an empty one when it is left out or mistaken, which is noted."""
    entry = root.get(name)
    section = None if entry is None else reader.as_section(account, entry, path=name)
    return section or yaml_source.Section(entries=(), line=1 if entry is None else entry.line)


def _read_flows(
    account: reader.Account, root: yaml_source.Section, defaults: yaml_source.Section | None
) -> list[flow_reader.FlowRead]:
    entry = root.get("flows")
    if entry is None:
        return []
    if not isinstance(entry.value, yaml_source.Listing):
        account.note(entry.line, "flows", "has to be a list, an item for each pair from and to")
        return []
    flows = flow_reader.read(account, entry.value, defaults)
    if not any(item.enabled for item in flows):
        account.note(entry.line, "flows", "has no flow that is enabled")
    return flows


def _read_clients(
    account: reader.Account, flows: list[flow_reader.FlowRead], known: clusters.Clusters
) -> dict[str, settings.FlowClients]:
    """Those of the enabled flows, by name."""
    found: dict[str, settings.FlowClients] = {}
    for item in flows:
        source, target = known.found.get(item.source or ""), known.found.get(item.target or "")
        if source is None or target is None:
            continue
        made, shown = flow_clients.resolve(account, item.overrides, source=source, target=target)
        item.effective.update(shown)
        if made is not None and item.flow is not None and item.enabled:
            found[item.flow.name] = made
    return found
