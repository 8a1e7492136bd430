"""The sections `metrics`, `health`, `drill`, `rest` and `worker`: what is served, what counts as
well, and how workers run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect_runtime.adapters.config import yaml_source
from mm2.app.settings import mirror_maker_keys as keys
from mm2.app.settings import reader, security_warnings, settings
from mm2.core.configs import kinds

_ENABLED = reader.Option(name="enabled", kind=kinds.boolean(), default="true")
_HOST = reader.Option(
    name="host",
    kind=kinds.matching(r"[^\s/]+", "a host name or address to listen on, 0.0.0.0 for all"),
    default="127.0.0.1",
)
_PORT = reader.Option(name="port", kind=kinds.whole(0, 65_535), default="9464")
_REQUIRED = reader.Option(name="required", kind=kinds.boolean(), default="true")
_BY = reader.Option(name="by", kind=kinds.choice("topic", "partition"), default="topic")
_WITHIN = reader.Option(
    name="replicating.within.seconds", kind=kinds.whole(1, 86_400), default="60"
)
_REPORT = reader.Option(name="report", kind=kinds.text("the path of a file"), default=None)
HEALTH, DRILL = "health", "drill"

REST = tuple(sorted(keys.REST))
"""Of the REST API by which the nodes of a flow's group reach each other."""
WORKER = tuple(sorted({*keys.WORKER_NAMES, *keys.WORKER_FACTORS, keys.RESTART_MAX} - {"group.id"}))
"""Of the Connect worker that each flow has."""


def _signed_protocol(text: str) -> str:
    if security_warnings.is_unsigned(text):
        raise kinds.RefusedError(
            f"{security_warnings.UNSIGNED}; remove it, or write {security_warnings.SESSIONED}"
        )
    return text


_PROTOCOL = kinds.One(security_warnings.SESSIONED, _signed_protocol)


def read_metrics(
    account: reader.Account, section: yaml_source.Section
) -> tuple[settings.MetricsSettings, Mapping[str, reader.Plain]]:
    """The settings, and their texts for people; mistakes are noted and stay at their default."""
    found = reader.SectionReader(account, section, path="metrics")
    metrics = settings.MetricsSettings(
        enabled=found.get(_ENABLED),
        host=found.get(_HOST),
        port=found.get(_PORT),
        required=found.get(_REQUIRED),
        by_partition=found.get(_BY) == "partition",
    )
    found.finish(refused={})
    return metrics, found.effective


def read_watch(
    account: reader.Account, health: yaml_source.Section, drill: yaml_source.Section
) -> tuple[settings.WatchSettings, Mapping[str, Mapping[str, reader.Plain]]]:
    """The settings, and their texts for people, by section."""
    found = reader.SectionReader(account, health, path=HEALTH)
    rehearsed = reader.SectionReader(account, drill, path=DRILL)
    report = rehearsed.optional(_REPORT)
    watch = settings.WatchSettings(
        replicating_within_s=float(found.get(_WITHIN)),
        drill_report=None if report is None else account.folder.absolute() / report,
    )
    for each in (found, rehearsed):
        each.finish(refused={})
    return watch, {HEALTH: found.effective, DRILL: rehearsed.effective}


def read_free(
    account: reader.Account, section: yaml_source.Section, *, path: str, names: Iterable[str]
) -> Mapping[str, reader.Plain]:
    """The texts of keys that the worker judges, for people; mistakes are noted."""
    found = reader.SectionReader(account, section, path=path)
    for name in names:
        kind = _PROTOCOL if name == security_warnings.PROTOCOL else kinds.text()
        found.optional(reader.Option(name=name, kind=kind, default=None))
    found.finish(refused={})
    return found.effective
