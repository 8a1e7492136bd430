"""Configuration of the copy engine: Spark, or threads of the worker (inline).

On a plain Connect worker it is in the worker's properties: `mm2.engine`, and keys that begin
with `mm2.spark.`. A connector's configuration may override only `CONNECTOR_OVERRIDABLE`:
whoever may create connectors over REST must not choose programs, JVM options, addresses or
security settings of the worker's host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.api import config_def
from connect_runtime.api.errors import ConfigError
from mm2.config import keys, value_types
from mm2.config.value_types import ValueType

T = TypeVar("T")

LOCAL_MASTER = "local[512,1]"
SPARK, INLINE = "spark", "inline"
MASTER = value_types.text_matching(
    r"local|local\[(\d+|\*)(,1)?\]|spark://\S+|k8s://\S+|yarn",
    "local[N,1], spark://host:port, k8s://https://host:port or yarn",
)
PORT = value_types.integer(0, 65_535)
HOST = value_types.text_matching(r"[^\s/]+", "a host name or address")
DRIVER_HOSTS = ("driver.bindAddress", "driver.host")
DRIVER_PORTS = ("driver.blockManager.port", "driver.port")
RESERVED_SPARK_CONF: Mapping[str, str] = {
    "spark.app.name": "has a key of its own: write app.name",
    "spark.master": "has a key of its own: write master",
    "spark.python.worker.reuse": "cannot be set: a copy starts in a Python process that is there",
    "spark.pyspark.driver.python": "has a key of its own: write python",
    "spark.pyspark.python": "has a key of its own: write python",
    "spark.speculation": "cannot be set: a partition has one copy at a time",
    "spark.submit.deployMode": "cannot be set: this process is the driver",
    "spark.task.cpus": "cannot be set: a copy takes one slot",
    "spark.task.maxFailures": "cannot be set: mm2 restarts copies, Spark does not",
    "spark.ui.enabled": "has a key of its own: write ui",
}
"""Spark properties that are not the user's: each would break the rule that one Connect task is one
Spark task that runs once, or has a shorter key."""

_CONF = "conf."
SIZE_KEYS = frozenset(
    f"{_CONF}spark.{name}"
    for name in (
        "cores.max",
        "driver.cores",
        "driver.memory",
        "driver.memoryOverhead",
        "executor.cores",
        "executor.instances",
        "executor.memory",
        "executor.memoryOverhead",
    )
)
_SIZE = value_types.text_matching(r"[0-9]{1,9}[kKmMgGtT]?[bB]?", "a number or a size such as 2g")
_APP_NAME = value_types.text_matching(
    r"[A-Za-z0-9][A-Za-z0-9 ._:>-]{0,99}", "at most 100 letters, digits and . _ : > - or blanks"
)
CONNECTOR_OVERRIDABLE = frozenset({"app.name"}) | SIZE_KEYS
"""What may stand behind `mm2.spark.` in a connector's configuration."""
_AUTHENTICATION_KEY = "spark.authenticate"
_SECURITY_KEYS = (_AUTHENTICATION_KEY, "spark.network.crypto.enabled")
_OPTION_TYPES: Mapping[str, tuple[str, ValueType[Any]]] = {
    "master": ("master", MASTER),
    "app.name": ("app_name", value_types.text()),
    "ui": ("ui", value_types.boolean()),
    "control.host": ("control_host", HOST),
    "control.port": ("control_port", PORT),
    "python": ("python", value_types.text("the path of an interpreter")),
    "allow.insecure.spark": ("allow_insecure_spark", value_types.boolean()),
}
_DRIVER_OPTION_TYPES: Mapping[str, ValueType[Any]] = {
    **dict.fromkeys(DRIVER_HOSTS, HOST),
    **dict.fromkeys(DRIVER_PORTS, PORT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """`engine` is `spark` or `inline`; all else is for Spark.

    `conf` holds Spark properties by their full names. `control_host` and `control_port` (None and
    0: we choose) are where copies on other machines reach this process. `python` None: our
    interpreter. `hidden_environment` names variables that no process of Spark may inherit.
    """

    engine: str = SPARK
    master: str = LOCAL_MASTER
    app_name: str = "mm2"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    ui: bool = False
    control_host: str | None = None
    control_port: int = 0
    python: str | None = None
    allow_insecure_spark: bool = False
    hidden_environment: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def on_this_machine(self) -> bool:
        return self.engine == INLINE or is_local_master(self.master)

    @property
    def required_security(self) -> tuple[str, ...]:
        """Spark properties that may not be false.

        On a cluster, Spark's connections carry what gives access to the control channel. On this
        machine, every local user can connect to the driver, which deserializes Java objects.
        """
        if self.engine == INLINE or self.allow_insecure_spark:
            return ()
        return (_AUTHENTICATION_KEY,) if is_local_master(self.master) else _SECURITY_KEYS

    @property
    def name(self) -> str:
        """For people."""
        return self.engine if self.engine == INLINE else f"{self.engine} on {self.master}"


def is_local_master(master: str) -> bool:
    """Does Spark run inside this machine's one JVM?"""
    return master == "local" or master.startswith("local[")


def diff_engine_settings(one: EngineSettings, other: EngineSettings) -> list[str]:
    """Which settings differ, by their keys; their values may be secrets."""
    named = {field_name: key for key, (field_name, _) in _OPTION_TYPES.items()}
    found = [] if one.engine == other.engine else [keys.ENGINE]
    found += [
        keys.SPARK_PREFIX + key
        for name, key in named.items()
        if getattr(one, name) != getattr(other, name)
    ]
    both = sorted({*one.conf, *other.conf})
    found += [
        f"{keys.SPARK_PREFIX}{_CONF}{key}"
        for key in both
        if one.conf.get(key) != other.conf.get(key)
    ]
    return found


def parse_engine_settings(
    props: Mapping[str, str], *, worker: Mapping[str, str] | None = None
) -> EngineSettings | None:
    """The settings of `worker`, a Connect worker's properties, with what a connector's
    configuration overrides; None if neither has any.

    Raises `ConfigError`, with the key, for an unknown key, a value that is not allowed, and a key
    that a connector's configuration may not have.
    """
    _check_connector_keys(props)
    of_worker = dict(worker or {})
    try:
        _parse_properties(of_worker)
    except ConfigError as error:
        raise ConfigError(f"in the Connect worker's properties: {error}") from None
    return _parse_properties({**of_worker, **props})


def _check_connector_keys(props: Mapping[str, str]) -> None:
    for name, text in config_def.with_prefix(props, keys.SPARK_PREFIX).items():
        key = keys.SPARK_PREFIX + name
        if name not in CONNECTOR_OVERRIDABLE:
            _check_known_key(key, name)
            raise ConfigError(
                f"{key} cannot be set in a connector's configuration: write it into the properties "
                "file of each Connect worker and restart it. A connector's configuration may have "
                f"{keys.ENGINE}, "
                + ", ".join(keys.SPARK_PREFIX + each for each in sorted(CONNECTOR_OVERRIDABLE))
            )
        _parse_value(key, text.strip(), _SIZE if name in SIZE_KEYS else _APP_NAME)


def _check_known_key(key: str, name: str) -> None:
    if (
        name not in _OPTION_TYPES
        and name not in _DRIVER_OPTION_TYPES
        and not name.startswith(_CONF)
    ):
        known = ", ".join(
            keys.SPARK_PREFIX + each for each in (*_OPTION_TYPES, *_DRIVER_OPTION_TYPES)
        )
        raise ConfigError(f"{key} is not known; there are {known} and conf.spark.…")


def _parse_properties(props: Mapping[str, str]) -> EngineSettings | None:
    given = config_def.with_prefix(props, keys.SPARK_PREFIX)
    engine = props.get(keys.ENGINE)
    if engine is None and not given:
        return None
    engine = _parse_value(keys.ENGINE, (engine or SPARK).strip(), value_types.choice(SPARK, INLINE))
    fields: dict[str, Any] = {}
    conf: dict[str, str] = {}
    for name, text in given.items():
        key = keys.SPARK_PREFIX + name
        _check_known_key(key, name)
        if name in _OPTION_TYPES:
            to, kind = _OPTION_TYPES[name]
            fields[to] = _parse_value(key, text, kind)
        elif name in _DRIVER_OPTION_TYPES:
            conf[f"spark.{name}"] = str(_parse_value(key, text, _DRIVER_OPTION_TYPES[name]))
        else:
            conf[_conf_name(key, name.removeprefix(_CONF))] = text.strip()
    made = EngineSettings(engine=engine, conf=conf, **fields)
    _check_spark_security(made)
    return made


def _parse_value(key: str, text: str, kind: ValueType[T]) -> T:
    try:
        return kind.parse((text,))
    except ValueError:
        raise ConfigError(f"{key} is {text!r}; allowed: {kind.allowed}") from None


def _conf_name(key: str, name: str) -> str:
    if name in RESERVED_SPARK_CONF:
        raise ConfigError(f"{key} {RESERVED_SPARK_CONF[name]}")
    if not re.fullmatch(r"spark\.\S+", name):
        raise ConfigError(f"{key}: names of Spark's settings begin with spark.")
    return name


def _check_spark_security(made: EngineSettings) -> None:
    for name in made.required_security:
        if made.conf.get(name, "true").lower() != "true":
            key = f"{keys.SPARK_PREFIX}{_CONF}{name}"
            raise ConfigError(
                f"{key} would leave the connections of {made.name} unauthenticated or unencrypted: "
                f"write true, or {keys.SPARK_PREFIX}allow.insecure.spark=true"
            )
