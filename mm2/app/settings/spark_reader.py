"""The `spark` section: where the copies run, and with what Spark settings."""

from __future__ import annotations

import re
from collections.abc import Mapping

from connect_runtime.adapters.config import yaml_source
from mm2.app.settings import kinds, problems, reader, settings

_PORT = kinds.whole(0, 65_535)
_HOST = kinds.matching(r"[^\s/]+", "a host name or address")
_MASTER_FORMS = r"local|local\[(\d+|\*)(,1)?\]|spark://\S+|k8s://\S+|yarn"

_ENGINE = reader.Option(name="engine", kind=kinds.choice("spark", "inline"), default="spark")
_MASTER = reader.Option(
    name="master",
    kind=kinds.matching(
        _MASTER_FORMS, "local[N,1], spark://host:port, k8s://https://host:port or yarn"
    ),
    default="local[512,1]",
)
_APP_NAME = reader.Option(name="app.name", kind=kinds.text(), default="mm2")
_DRIVER_HOST = reader.Option(name="driver.host", kind=_HOST, default=None)
_BIND_ADDRESS = reader.Option(name="driver.bindAddress", kind=_HOST, default=None)
_DRIVER_PORT = reader.Option(name="driver.port", kind=_PORT, default="0")
_BLOCK_MANAGER_PORT = reader.Option(name="driver.blockManager.port", kind=_PORT, default="0")
_CONTROL_HOST = reader.Option(name="control.host", kind=_HOST, default=None)
_CONTROL_PORT = reader.Option(name="control.port", kind=_PORT, default="0")
_PYTHON = reader.Option(name="python", kind=kinds.text("the path of an interpreter"), default=None)
_INSECURE = reader.Option(name="allow.insecure.spark", kind=kinds.boolean(), default="false")
_CONF = "conf"
# As Spark's own `spark.redaction.regex`.
_SENSITIVE = re.compile("(?i)secret|password|token|access[.]?key")

# Each would break the rule that one Connect task is one Spark task that runs once.
_OWN_CONF: Mapping[str, str] = {
    "spark.app.name": "has a key of its own: write app.name",
    "spark.driver.bindAddress": "has a key of its own: write driver.bindAddress",
    "spark.driver.blockManager.port": "has a key of its own: write driver.blockManager.port",
    "spark.driver.host": "has a key of its own: write driver.host",
    "spark.driver.port": "has a key of its own: write driver.port",
    "spark.master": "has a key of its own: write master",
    "spark.pyspark.driver.python": "has a key of its own: write python",
    "spark.pyspark.python": "has a key of its own: write python",
    "spark.speculation": "cannot be set: a partition has one copy at a time",
    "spark.submit.deployMode": "cannot be set: mm2 run is the driver",
    "spark.task.cpus": "cannot be set: a copy takes one slot",
    "spark.task.maxFailures": "cannot be set: mm2 restarts copies, Spark does not",
}


def read(
    account: reader.Account, section: yaml_source.Section
) -> tuple[settings.SparkSettings, Mapping[str, reader.Plain]]:
    """The settings, and their texts for people; mistakes are noted and stay at their default."""
    found = reader.SectionReader(account, section, path="spark")
    spark = settings.SparkSettings(
        engine=found.get(_ENGINE),
        master=found.get(_MASTER),
        app_name=found.get(_APP_NAME),
        conf=_read_conf(found),
        driver_host=found.optional(_DRIVER_HOST),
        driver_port=found.get(_DRIVER_PORT),
        driver_bind_address=found.optional(_BIND_ADDRESS),
        block_manager_port=found.get(_BLOCK_MANAGER_PORT),
        control_host=found.optional(_CONTROL_HOST),
        control_port=found.get(_CONTROL_PORT),
        python=found.optional(_PYTHON),
        allow_insecure_spark=found.get(_INSECURE),
    )
    found.finish(refused={})
    _check_security(found, spark)
    return spark, found.effective


def _read_conf(found: reader.SectionReader) -> dict[str, str]:
    conf: dict[str, str] = {}
    shown: dict[str, str] = {}
    for name, given in found.texts(_CONF).items():
        key = f"spark.{_CONF}.{name}"
        if name in _OWN_CONF:
            found.account.note(given.line, key, _OWN_CONF[name])
        elif not name.startswith("spark."):
            text = "is no Spark setting: their names begin with spark."
            found.account.note(given.line, key, text, nearest=f"spark.{name}")
        else:
            conf[name] = given.text
            secret = given.secret or _SENSITIVE.search(name)
            shown[name] = problems.HIDDEN if secret else given.text
    if shown:
        found.effective[_CONF] = shown
    return conf


def _check_security(found: reader.SectionReader, spark: settings.SparkSettings) -> None:
    """Copies get their credentials through Spark's and our own connections across machines."""
    if spark.is_local or spark.engine == "inline" or spark.allow_insecure_spark:
        return
    authenticated = spark.conf.get("spark.authenticate", "").lower() == "true"
    encrypted = any(
        spark.conf.get(name, "").lower() == "true"
        for name in ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    )
    if not (authenticated and encrypted):
        found.account.note(
            found.line_of(_MASTER.name),
            "spark.master",
            "is a cluster without authentication and encryption",
            given=spark.master,
            allowed="conf with spark.authenticate: true and spark.network.crypto.enabled: true, "
            "or allow.insecure.spark: true",
        )
