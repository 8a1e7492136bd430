"""Reads the section `spark`, which configures Spark and determines where copy processes run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from connect_runtime.config import config_errors
from connect_runtime.config.yaml_parser import YamlSection
from mm2.config import config_value_types, copy_engine_config
from mm2.config.config_value_types import ValueType
from mm2.config.copy_engine_config import EngineSettings
from mm2.config.yaml_section_reader import (
    ConfigOption,
    PlainYaml,
    ProblemCollector,
    SectionReader,
    UnvalidatedSettingText,
)

T = TypeVar("T")

_ENGINE = ConfigOption(
    name="engine", kind=config_value_types.choice_type("spark", "inline"), default="spark"
)
_MASTER = ConfigOption(
    name="master",
    kind=copy_engine_config.MASTER,
    default=copy_engine_config.LOCAL_MASTER,
)
_APP_NAME = ConfigOption(name="app.name", kind=config_value_types.text_type(), default="mm2")
_UI = ConfigOption(name="ui", kind=config_value_types.boolean_type(), default="false")
_CONTROL_HOST = ConfigOption(name="control.host", kind=copy_engine_config.HOST, default=None)
_CONTROL_PORT = ConfigOption(name="control.port", kind=copy_engine_config.PORT, default="0")
_PYTHON = ConfigOption(
    name="python", kind=config_value_types.text_type("path of an interpreter"), default=None
)
_INSECURE = ConfigOption(
    name="allow.insecure.spark", kind=config_value_types.boolean_type(), default="false"
)
_CONF = "conf"


def read_spark_section(
    collector: ProblemCollector, section: YamlSection
) -> tuple[EngineSettings, Mapping[str, PlainYaml]]:
    """Read section `spark` and return the settings and their text values. Invalid values are
    reported and replaced by the defaults."""
    found = SectionReader(collector, section, path="spark")
    conf = _read_spark_conf(found)
    spark = EngineSettings(
        engine=found.get(_ENGINE),
        master=found.get(_MASTER),
        app_name=found.get(_APP_NAME),
        conf={
            **{name: given.text for name, given in conf.items()},
            **_read_driver_addresses(found),
        },
        ui=found.get(_UI),
        control_host=found.get_optional(_CONTROL_HOST),
        control_port=found.get(_CONTROL_PORT),
        python=found.get_optional(_PYTHON),
        allow_insecure_spark=found.get(_INSECURE),
    )
    found.report_unread_keys(refused={})
    _check_required_security(collector, spark, conf)
    return spark, found.effective


def _read_spark_conf(found: SectionReader) -> dict[str, UnvalidatedSettingText]:
    conf: dict[str, UnvalidatedSettingText] = {}
    shown: dict[str, str] = {}
    for name, given in found.read_nested_section(_CONF).items():
        key = f"spark.{_CONF}.{name}"
        if name in copy_engine_config.RESERVED_SPARK_CONF:
            found.collector.report_error(
                given.line, key, copy_engine_config.RESERVED_SPARK_CONF[name]
            )
        elif not name.startswith("spark."):
            text = "is not a Spark property: Spark property names begin with spark."
            found.collector.report_error(given.line, key, text, nearest=f"spark.{name}")
        else:
            conf[name] = given
            shown[name] = (
                config_errors.HIDDEN_VALUE
                if given.secret
                else config_errors.redact_secrets_in_value(given.text)
            )
            _warn_about_command_line_secret(found.collector, key, given)
    if shown:
        found.effective[_CONF] = shown
    return conf


def _warn_about_command_line_secret(
    collector: ProblemCollector, key: str, given: UnvalidatedSettingText
) -> None:
    """Warn about a secret in a property that becomes part of a command line."""
    is_hidden = given.secret or config_errors.redact_secrets_in_value(given.text) != given.text
    if is_hidden and key.endswith(copy_engine_config.COMMAND_LINE_SUFFIXES):
        collector.report_warning(
            given.line,
            key,
            "contains a secret or a ${…} reference, and its value becomes part of a command line, "
            "which every user of that machine can read: use the dedicated Spark property instead "
            "(such as spark.ssl.trustStorePassword), or a file that only the JVM's user can read",
        )


def _read_driver_addresses(found: SectionReader) -> dict[str, str]:
    """Read the addresses of the Spark driver, which usually must be set for a Spark cluster. Their
    keys in section `spark` are the names of Spark properties without "spark.". Returns Spark
    properties."""
    hosts = {
        name: found.get_optional(_build_conf_option(name, copy_engine_config.HOST))
        for name in copy_engine_config.DRIVER_HOSTS
    }
    ports = {
        name: found.get_optional(_build_conf_option(name, copy_engine_config.PORT))
        for name in copy_engine_config.DRIVER_PORTS
    }
    given = {**hosts, **{name: port and str(port) for name, port in ports.items()}}
    return {f"spark.{name}": value for name, value in given.items() if value}


def _build_conf_option(name: str, kind: ValueType[T]) -> ConfigOption[T]:
    return ConfigOption(name=name, kind=kind, default=None)


def _check_required_security(
    collector: ProblemCollector, spark: EngineSettings, conf: Mapping[str, UnvalidatedSettingText]
) -> None:
    """Report Spark properties that disable required security."""
    for name in spark.required_security_properties:
        if name in conf and conf[name].text.lower() != "true":
            collector.report_error(
                conf[name].line,
                f"spark.{_CONF}.{name}",
                f"would leave the connections of {spark.display_name} unauthenticated or "
                "unencrypted",
                given=config_errors.HIDDEN_VALUE if conf[name].secret else conf[name].text,
                allowed="true, or allow.insecure.spark: true",
            )
