"""Reads the sections `metrics`, `health`, `drill`, `rest` and `worker`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect_runtime.config.yaml_parser import YamlSection
from mm2.config import config_value_types, mm2_property_keys, security_warnings
from mm2.config.config_value_types import RefusedValueError, SingleValueType
from mm2.config.mm2_settings import HealthSettings, MetricsEndpointSettings
from mm2.config.yaml_section_reader import ConfigOption, PlainYaml, ProblemCollector, SectionReader

_ENABLED_OPTION = ConfigOption(
    name="enabled", kind=config_value_types.boolean_type(), default="true"
)
_HOST_OPTION = ConfigOption(
    name="host",
    kind=config_value_types.regex_text_type(
        r"[^\s/]+", "a host name or address to listen on; 0.0.0.0 listens on all interfaces"
    ),
    default="127.0.0.1",
)
_PORT_OPTION = ConfigOption(
    name="port", kind=config_value_types.integer_type(0, 65_535), default="9464"
)
_REQUIRED_OPTION = ConfigOption(
    name="required", kind=config_value_types.boolean_type(), default="true"
)
_BY_OPTION = ConfigOption(
    name="by", kind=config_value_types.choice_type("topic", "partition"), default="topic"
)
_WITHIN_OPTION = ConfigOption(
    name="replicating.within.seconds", kind=config_value_types.integer_type(1, 86_400), default="60"
)
_REPORT_OPTION = ConfigOption(
    name="report", kind=config_value_types.text_type("path of a file"), default=None
)
HEALTH_SECTION, DRILL_SECTION = "health", "drill"

REST_KEYS = tuple(sorted(mm2_property_keys.REST_KEYS))
"""Keys of section `rest`, which configures the REST server for communication between nodes of a
group."""
WORKER_KEYS = tuple(
    sorted(
        {
            *mm2_property_keys.WORKER_NAMES,
            *mm2_property_keys.WORKER_FACTOR_KEYS,
            mm2_property_keys.RESTART_MAX,
        }
        - {"group.id"}
    )
)
"""Keys of section `worker`, which configures the Connect worker of each flow."""


def _parse_signed_connect_protocol(text: str) -> str:
    if security_warnings.is_unsigned_connect_protocol(text):
        raise RefusedValueError(
            f"{security_warnings.UNSIGNED_TEXT}; remove the key, or set it to "
            f"{security_warnings.SESSIONED_PROTOCOL}"
        )
    return text


_SIGNED_PROTOCOL = SingleValueType(
    security_warnings.SESSIONED_PROTOCOL, _parse_signed_connect_protocol
)


def read_metrics_section(
    collector: ProblemCollector, section: YamlSection
) -> tuple[MetricsEndpointSettings, Mapping[str, PlainYaml]]:
    """Read section `metrics` and return the settings and their text values. Invalid values are
    reported and replaced by the defaults."""
    found = SectionReader(collector, section, path="metrics")
    metrics = MetricsEndpointSettings(
        enabled=found.get(_ENABLED_OPTION),
        host=found.get(_HOST_OPTION),
        port=found.get(_PORT_OPTION),
        required=found.get(_REQUIRED_OPTION),
        by_partition=found.get(_BY_OPTION) == "partition",
    )
    found.report_unread_keys(refused={})
    return metrics, found.effective


def read_health_section(
    collector: ProblemCollector, health: YamlSection, drill: YamlSection
) -> tuple[HealthSettings, Mapping[str, Mapping[str, PlainYaml]]]:
    """Read sections `health` and `drill`. Return the settings, and their text values by section."""
    found = SectionReader(collector, health, path=HEALTH_SECTION)
    rehearsed = SectionReader(collector, drill, path=DRILL_SECTION)
    report = rehearsed.get_optional(_REPORT_OPTION)
    watch = HealthSettings(
        replicating_within_s=float(found.get(_WITHIN_OPTION)),
        drill_report=None if report is None else collector.folder.absolute() / report,
    )
    for each in (found, rehearsed):
        each.report_unread_keys(refused={})
    return watch, {HEALTH_SECTION: found.effective, DRILL_SECTION: rehearsed.effective}


def read_unvalidated_section(
    collector: ProblemCollector, section: YamlSection, *, path: str, names: Iterable[str]
) -> Mapping[str, PlainYaml]:
    """Read a section whose values the Connect worker validates later. Returns the values as
    text."""
    found = SectionReader(collector, section, path=path)
    for name in names:
        kind = (
            _SIGNED_PROTOCOL
            if name == security_warnings.CONNECT_PROTOCOL_KEY
            else config_value_types.text_type()
        )
        found.get_optional(ConfigOption(name=name, kind=kind, default=None))
    found.report_unread_keys(refused={})
    return found.effective
