"""The `spark` section: where the copies run, and with what Spark settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from connect_runtime.adapters.config import yaml_source
from connect_runtime.app.settings import problems
from mm2.app.settings import reader
from mm2.core.configs import engine_settings, kinds

T = TypeVar("T")

_ENGINE = reader.Option(name="engine", kind=kinds.choice("spark", "inline"), default="spark")
_MASTER = reader.Option(
    name="master",
    kind=engine_settings.MASTER,
    default=engine_settings.LOCAL_MASTER,
)
_APP_NAME = reader.Option(name="app.name", kind=kinds.text(), default="mm2")
_UI = reader.Option(name="ui", kind=kinds.boolean(), default="false")
_CONTROL_HOST = reader.Option(name="control.host", kind=engine_settings.HOST, default=None)
_CONTROL_PORT = reader.Option(name="control.port", kind=engine_settings.PORT, default="0")
_PYTHON = reader.Option(name="python", kind=kinds.text("the path of an interpreter"), default=None)
_INSECURE = reader.Option(name="allow.insecure.spark", kind=kinds.boolean(), default="false")
_CONF = "conf"
# As Spark's own `spark.redaction.regex`.
_SENSITIVE = re.compile("(?i)secret|password|token|access[.]?key")


def read(
    account: reader.Account, section: yaml_source.Section
) -> tuple[engine_settings.EngineSettings, Mapping[str, reader.Plain]]:
    """The settings, and their texts for people; mistakes are noted and stay at their default."""
    found = reader.SectionReader(account, section, path="spark")
    conf = _read_conf(found)
    spark = engine_settings.EngineSettings(
        engine=found.get(_ENGINE),
        master=found.get(_MASTER),
        app_name=found.get(_APP_NAME),
        conf={**{name: given.text for name, given in conf.items()}, **_read_driver(found)},
        ui=found.get(_UI),
        control_host=found.optional(_CONTROL_HOST),
        control_port=found.get(_CONTROL_PORT),
        python=found.optional(_PYTHON),
        allow_insecure_spark=found.get(_INSECURE),
    )
    found.finish(refused={})
    _check_security(account, spark, conf)
    return spark, found.effective


def _read_conf(found: reader.SectionReader) -> dict[str, reader.Text]:
    conf: dict[str, reader.Text] = {}
    shown: dict[str, str] = {}
    for name, given in found.texts(_CONF).items():
        key = f"spark.{_CONF}.{name}"
        if name in engine_settings.OWN_CONF:
            found.account.note(given.line, key, engine_settings.OWN_CONF[name])
        elif not name.startswith("spark."):
            text = "is no Spark setting: their names begin with spark."
            found.account.note(given.line, key, text, nearest=f"spark.{name}")
        else:
            conf[name] = given
            secret = given.secret or _SENSITIVE.search(name)
            shown[name] = problems.HIDDEN if secret else given.text
    if shown:
        found.effective[_CONF] = shown
    return conf


def _read_driver(found: reader.SectionReader) -> dict[str, str]:
    """How executors reach the driver: short keys for what a cluster nearly always needs."""
    hosts = {
        name: found.optional(_option(name, engine_settings.HOST))
        for name in engine_settings.DRIVER_HOSTS
    }
    ports = {
        name: found.optional(_option(name, engine_settings.PORT))
        for name in engine_settings.DRIVER_PORTS
    }
    given = {**hosts, **{name: port and str(port) for name, port in ports.items()}}
    return {f"spark.{name}": value for name, value in given.items() if value}


def _option(name: str, kind: kinds.Kind[T]) -> reader.Option[T]:
    return reader.Option(name=name, kind=kind, default=None)


def _check_security(
    account: reader.Account, spark: engine_settings.EngineSettings, conf: Mapping[str, reader.Text]
) -> None:
    """Report where the file switches off what the engine switches on."""
    for name in spark.required_security:
        if name in conf and conf[name].text.lower() != "true":
            account.note(
                conf[name].line,
                f"spark.{_CONF}.{name}",
                f"would leave the connections of {spark.name} unauthenticated or unencrypted",
                given=problems.HIDDEN if conf[name].secret else conf[name].text,
                allowed="true, or allow.insecure.spark: true",
            )
