"""The sections `metrics` and `rest`: what this process serves."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.adapters.config import yaml_source
from mm2.app.settings import reader, settings
from mm2.core.configs import kinds

_ENABLED = reader.Option(name="enabled", kind=kinds.boolean(), default="true")
_HOST = reader.Option(
    name="host",
    kind=kinds.matching(r"[^\s/]+", "a host name or address to listen on, 0.0.0.0 for all"),
    default="127.0.0.1",
)
_PORT = reader.Option(name="port", kind=kinds.whole(0, 65_535), default="9464")

_NO_REST = "is not supported yet: this version serves no REST API, leave the section empty"
_REST_KEYS = dict.fromkeys(
    (
        "access.control.allow.methods",
        "access.control.allow.origin",
        "admin.listeners",
        "listeners",
        "response.http.headers.config",
        "rest.advertised.host.name",
        "rest.advertised.listener",
        "rest.advertised.port",
        "ssl.client.auth",
    ),
    _NO_REST,
)


def read_metrics(
    account: reader.Account, section: yaml_source.Section
) -> tuple[settings.MetricsSettings, Mapping[str, reader.Plain]]:
    """The settings, and their texts for people; mistakes are noted and stay at their default."""
    found = reader.SectionReader(account, section, path="metrics")
    metrics = settings.MetricsSettings(
        enabled=found.get(_ENABLED), host=found.get(_HOST), port=found.get(_PORT)
    )
    found.finish(refused={})
    return metrics, found.effective


def read_rest(account: reader.Account, section: yaml_source.Section) -> None:
    """The section may be there and empty; every key that Connect knows is refused by name."""
    reader.SectionReader(account, section, path="rest").finish(refused=_REST_KEYS)
