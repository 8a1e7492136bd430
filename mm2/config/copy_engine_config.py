"""Configuration of the copy engine, which runs copy processes in Spark or in threads of the worker
(inline).

On a plain Connect worker, `mm2.engine` and keys with the prefix `mm2.spark.` are worker properties.
A connector's configuration may override only the keys in `CONNECTOR_OVERRIDABLE`, because users who
can create connectors over REST must not control programs, JVM options, addresses or security
settings of the worker's host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.api import config_def
from connect_runtime.api.errors import ConfigError
from connect_runtime.config import properties_file
from mm2.config import config_value_types, mirror_connector_config_keys
from mm2.config.config_value_types import ValueType

T = TypeVar("T")

LOCAL_MASTER = "local[512,1]"
SPARK, INLINE = "spark", "inline"
MASTER = config_value_types.regex_text_type(
    r"local|local\[(\d+|\*)(,1)?\]|spark://\S+|k8s://\S+|yarn",
    "local[N,1], spark://host:port, k8s://https://host:port or yarn",
)
PORT = config_value_types.integer_type(0, 65_535)
HOST = config_value_types.regex_text_type(r"[^\s/]+", "a host name or address")
DRIVER_HOSTS = ("driver.bindAddress", "driver.host")
DRIVER_PORTS = ("driver.blockManager.port", "driver.port")
RESERVED_SPARK_CONF: Mapping[str, str] = {
    "spark.app.name": "cannot be set here: use the key app.name",
    "spark.master": "cannot be set here: use the key master",
    "spark.python.worker.reuse": "cannot be set: copy processes reuse running Python workers",
    "spark.pyspark.driver.python": "cannot be set here: use the key python",
    "spark.pyspark.python": "cannot be set here: use the key python",
    "spark.speculation": "cannot be set: only one process may copy a partition at a time",
    "spark.submit.deployMode": "cannot be set: this process is the driver",
    "spark.task.cpus": "cannot be set: a copy process always uses one Spark task slot",
    "spark.task.maxFailures": "cannot be set: mm2 restarts failed copy processes, not Spark",
    "spark.ui.enabled": "cannot be set here: use the key ui",
}
"""Spark properties that are refused, with the reason: a shorter key exists, or the property would
violate the rule that each Connect task is one Spark task that runs once."""

_CONF = "conf."
SPARK_CONF_PREFIX = f"{mirror_connector_config_keys.SPARK_PREFIX}{_CONF}"
COMMAND_LINE_SUFFIXES = ("extraJavaOptions", "defaultJavaOptions")
"""Suffixes of Spark properties that become command-line arguments of a process, which other users
can read."""
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
_SIZE = config_value_types.regex_text_type(
    r"[0-9]{1,9}[kKmMgGtT]?[bB]?", "number, or a size such as 2g"
)
_APP_NAME = config_value_types.regex_text_type(
    r"[A-Za-z0-9][A-Za-z0-9 ._:>-]{0,99}",
    ("at most 100 letters, digits, spaces, or characters of . _ : > -"),
)
CONNECTOR_OVERRIDABLE = frozenset({"app.name"}) | SIZE_KEYS
"""Keys, without the prefix `mm2.spark.`, that a connector's configuration may override."""
HARMLESS_SPARK_CONF = frozenset(
    key.removeprefix(SPARK_CONF_PREFIX)
    for key in properties_file.HARMLESS_SPARK_KEYS
    if key.startswith(SPARK_CONF_PREFIX)
)
"""Spark properties that cannot run commands on this machine: sizes and addresses."""
_AUTHENTICATION_KEY = "spark.authenticate"
_SECURITY_KEYS = (_AUTHENTICATION_KEY, "spark.network.crypto.enabled")
_OPTION_TYPES: Mapping[str, tuple[str, ValueType[Any]]] = {
    "master": ("master", MASTER),
    "app.name": ("app_name", config_value_types.text_type()),
    "ui": ("ui", config_value_types.boolean_type()),
    "control.host": ("control_host", HOST),
    "control.port": ("control_port", PORT),
    "python": ("python", config_value_types.text_type("path of an interpreter")),
    "allow.insecure.spark": ("allow_insecure_spark", config_value_types.boolean_type()),
}
_DRIVER_OPTION_TYPES: Mapping[str, ValueType[Any]] = {
    **dict.fromkeys(DRIVER_HOSTS, HOST),
    **dict.fromkeys(DRIVER_PORTS, PORT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Settings of the copy engine. All fields except `engine` apply to Spark only."""

    engine: str = SPARK
    """Copy engine: `spark` or `inline`."""
    master: str = LOCAL_MASTER
    app_name: str = "mm2"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark properties by full name."""
    ui: bool = False
    control_host: str | None = None
    """Address at which copy processes on other machines connect to this process; None: detect the
    address."""
    control_port: int = 0
    """Port on which this process accepts connections from copy processes; 0: any free port."""
    python: str | None = None
    """Path of the executors' Python interpreter; None: the interpreter of this process."""
    allow_insecure_spark: bool = False
    hidden_environment: frozenset[str] = field(default=frozenset(), compare=False)
    """Environment variables that contain secrets and that Spark processes must not inherit."""

    @property
    def is_local(self) -> bool:
        return self.engine == INLINE or properties_file.is_local_spark_master(self.master)

    @property
    def required_security_properties(self) -> tuple[str, ...]:
        """Names of the security-related Spark properties that must not be set to false.

        On a Spark cluster, Spark's connections transmit the secret that protects the control
        channel to copy processes. On a single machine, every local user can connect to the driver,
        which deserializes Java objects.
        """
        if self.engine == INLINE or self.allow_insecure_spark:
            return ()
        return (
            (_AUTHENTICATION_KEY,)
            if properties_file.is_local_spark_master(self.master)
            else _SECURITY_KEYS
        )

    @property
    def display_name(self) -> str:
        """Display name of the engine, such as `spark on local[4]`."""
        return self.engine if self.engine == INLINE else f"{self.engine} on {self.master}"


def diff_engine_settings(one: EngineSettings, other: EngineSettings) -> list[str]:
    """Compare two `EngineSettings`. Return the keys of the settings that differ, without values,
    because values may be secrets."""
    named = {field_name: key for key, (field_name, _) in _OPTION_TYPES.items()}
    found = [] if one.engine == other.engine else [mirror_connector_config_keys.ENGINE]
    found += [
        mirror_connector_config_keys.SPARK_PREFIX + key
        for name, key in named.items()
        if getattr(one, name) != getattr(other, name)
    ]
    both = sorted({*one.conf, *other.conf})
    found += [
        f"{mirror_connector_config_keys.SPARK_PREFIX}{_CONF}{key}"
        for key in both
        if one.conf.get(key) != other.conf.get(key)
    ]
    return found


def parse_engine_settings(
    props: Mapping[str, str], *, worker: Mapping[str, str] | None = None
) -> EngineSettings | None:
    """Parse the engine settings from a Connect worker's properties and a connector's overrides.

    Returns None if neither contains engine keys. Raises `ConfigError` with the key's name for an
    unknown key, an invalid value, or a key that a connector's configuration must not set.
    """
    _check_connector_keys(props)
    of_worker = dict(worker or {})
    try:
        _parse_engine_properties(of_worker)
    except ConfigError as error:
        raise ConfigError(f"in the Connect worker's properties: {error}") from None
    return _parse_engine_properties({**of_worker, **props})


def _check_connector_keys(props: Mapping[str, str]) -> None:
    for name, text in config_def.with_prefix(
        props, mirror_connector_config_keys.SPARK_PREFIX
    ).items():
        key = mirror_connector_config_keys.SPARK_PREFIX + name
        if name not in CONNECTOR_OVERRIDABLE:
            _check_known_key(key, name)
            raise ConfigError(
                f"{key} cannot be set in a connector's configuration: add it to the properties "
                "file of each Connect worker and restart the workers. A connector's configuration "
                f"may set {mirror_connector_config_keys.ENGINE}, "
                + ", ".join(
                    mirror_connector_config_keys.SPARK_PREFIX + each
                    for each in sorted(CONNECTOR_OVERRIDABLE)
                )
            )
        _parse_engine_value(key, text.strip(), _SIZE if name in SIZE_KEYS else _APP_NAME)


def _check_known_key(key: str, name: str) -> None:
    if (
        name not in _OPTION_TYPES
        and name not in _DRIVER_OPTION_TYPES
        and not name.startswith(_CONF)
    ):
        known = ", ".join(
            mirror_connector_config_keys.SPARK_PREFIX + each
            for each in (*_OPTION_TYPES, *_DRIVER_OPTION_TYPES)
        )
        raise ConfigError(f"{key} is not a known key; known keys: {known} and conf.spark.…")


def _parse_engine_properties(props: Mapping[str, str]) -> EngineSettings | None:
    given = config_def.with_prefix(props, mirror_connector_config_keys.SPARK_PREFIX)
    engine = props.get(mirror_connector_config_keys.ENGINE)
    if engine is None and not given:
        return None
    engine = _parse_engine_value(
        mirror_connector_config_keys.ENGINE,
        (engine or SPARK).strip(),
        config_value_types.choice_type(SPARK, INLINE),
    )
    fields: dict[str, Any] = {}
    conf: dict[str, str] = {}
    for name, text in given.items():
        key = mirror_connector_config_keys.SPARK_PREFIX + name
        _check_known_key(key, name)
        if name in _OPTION_TYPES:
            to, kind = _OPTION_TYPES[name]
            fields[to] = _parse_engine_value(key, text, kind)
        elif name in _DRIVER_OPTION_TYPES:
            conf[f"spark.{name}"] = str(_parse_engine_value(key, text, _DRIVER_OPTION_TYPES[name]))
        else:
            conf[_check_spark_property_name(key, name.removeprefix(_CONF))] = text.strip()
    made = EngineSettings(engine=engine, conf=conf, **fields)
    _check_spark_security(made)
    return made


def _parse_engine_value(key: str, text: str, kind: ValueType[T]) -> T:
    try:
        return kind.parse((text,))
    except ValueError:
        raise ConfigError(f"{key} is {text!r}; allowed: {kind.allowed}") from None


def _check_spark_property_name(key: str, name: str) -> str:
    if name in RESERVED_SPARK_CONF:
        raise ConfigError(f"{key} {RESERVED_SPARK_CONF[name]}")
    if not re.fullmatch(r"spark\.\S+", name):
        raise ConfigError(f"{key}: names of Spark properties begin with spark.")
    return name


def _check_spark_security(made: EngineSettings) -> None:
    for name in made.required_security_properties:
        if made.conf.get(name, "true").lower() != "true":
            key = f"{mirror_connector_config_keys.SPARK_PREFIX}{_CONF}{name}"
            raise ConfigError(
                f"{key} would leave the connections of {made.display_name} unauthenticated or "
                "unencrypted: set it to true, or set "
                f"{mirror_connector_config_keys.SPARK_PREFIX}allow.insecure.spark=true"
            )
