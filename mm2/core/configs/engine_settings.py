"""Where the data pipeline of a process runs: Spark's processes, or threads of the worker.

On a plain Connect worker the worker's own properties say it: `mm2.engine`, and keys that begin with
`mm2.spark.`. A connector's configuration may override only `FOR_CONNECTORS`: who may create a
connector over REST must not choose programs, JVM options, addresses or security settings of the
worker's host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.api import config_def, errors
from mm2.core.configs import kinds, own_keys

T = TypeVar("T")

LOCAL_MASTER = "local[512,1]"
SPARK, INLINE = "spark", "inline"
MASTER = kinds.matching(
    r"local|local\[(\d+|\*)(,1)?\]|spark://\S+|k8s://\S+|yarn",
    "local[N,1], spark://host:port, k8s://https://host:port or yarn",
)
PORT = kinds.whole(0, 65_535)
HOST = kinds.matching(r"[^\s/]+", "a host name or address")
DRIVER_HOSTS = ("driver.bindAddress", "driver.host")
DRIVER_PORTS = ("driver.blockManager.port", "driver.port")
OWN_CONF: Mapping[str, str] = {
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
SIZES = frozenset(
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
_SIZE = kinds.matching(r"[0-9]{1,9}[kKmMgGtT]?[bB]?", "a number or a size such as 2g")
_APP_NAME = kinds.matching(
    r"[A-Za-z0-9][A-Za-z0-9 ._:>-]{0,99}", "at most 100 letters, digits and . _ : > - or blanks"
)
FOR_CONNECTORS = frozenset({"app.name"}) | SIZES
"""What may stand behind `mm2.spark.` in a connector's configuration."""
_AUTHENTICATION = "spark.authenticate"
_SECURE = (_AUTHENTICATION, "spark.network.crypto.enabled")
_KINDS: Mapping[str, tuple[str, kinds.Kind[Any]]] = {
    "master": ("master", MASTER),
    "app.name": ("app_name", kinds.text()),
    "ui": ("ui", kinds.boolean()),
    "control.host": ("control_host", HOST),
    "control.port": ("control_port", PORT),
    "python": ("python", kinds.text("the path of an interpreter")),
    "allow.insecure.spark": ("allow_insecure_spark", kinds.boolean()),
}
_DRIVER: Mapping[str, kinds.Kind[Any]] = {
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
        return self.engine == INLINE or is_local(self.master)

    @property
    def required_security(self) -> tuple[str, ...]:
        """Spark properties that may not be false.

        On a cluster, Spark's connections carry what gives access to the control channel. On this
        machine, every local user can connect to the driver, which deserializes Java objects.
        """
        if self.engine == INLINE or self.allow_insecure_spark:
            return ()
        return (_AUTHENTICATION,) if is_local(self.master) else _SECURE

    @property
    def name(self) -> str:
        """For people."""
        return self.engine if self.engine == INLINE else f"{self.engine} on {self.master}"


def is_local(master: str) -> bool:
    """Does Spark run inside this machine's one JVM?"""
    return master == "local" or master.startswith("local[")


def differences(one: EngineSettings, other: EngineSettings) -> list[str]:
    """Which settings differ, by their keys; their values may be secrets."""
    named = {field_name: key for key, (field_name, _) in _KINDS.items()}
    found = [] if one.engine == other.engine else [own_keys.ENGINE]
    found += [
        own_keys.SPARK_PREFIX + key
        for name, key in named.items()
        if getattr(one, name) != getattr(other, name)
    ]
    both = sorted({*one.conf, *other.conf})
    found += [
        f"{own_keys.SPARK_PREFIX}{_CONF}{key}"
        for key in both
        if one.conf.get(key) != other.conf.get(key)
    ]
    return found


def read(
    props: Mapping[str, str], *, worker: Mapping[str, str] | None = None
) -> EngineSettings | None:
    """The settings of `worker`, a Connect worker's properties, with what a connector's
    configuration overrides; None if neither has any.

    Raises `ConfigError`, with the key, for an unknown key, a value that is not allowed, and a key
    that a connector's configuration may not have.
    """
    _check_connector(props)
    of_worker = dict(worker or {})
    try:
        _read(of_worker)
    except errors.ConfigError as error:
        raise errors.ConfigError(f"in the Connect worker's properties: {error}") from None
    return _read({**of_worker, **props})


def _check_connector(props: Mapping[str, str]) -> None:
    for name, text in config_def.with_prefix(props, own_keys.SPARK_PREFIX).items():
        key = own_keys.SPARK_PREFIX + name
        if name not in FOR_CONNECTORS:
            _check_known(key, name)
            raise errors.ConfigError(
                f"{key} cannot be set in a connector's configuration: write it into the properties "
                "file of each Connect worker and restart it. A connector's configuration may have "
                f"{own_keys.ENGINE}, "
                + ", ".join(own_keys.SPARK_PREFIX + each for each in sorted(FOR_CONNECTORS))
            )
        _parsed(key, text.strip(), _SIZE if name in SIZES else _APP_NAME)


def _check_known(key: str, name: str) -> None:
    if name not in _KINDS and name not in _DRIVER and not name.startswith(_CONF):
        known = ", ".join(own_keys.SPARK_PREFIX + each for each in (*_KINDS, *_DRIVER))
        raise errors.ConfigError(f"{key} is not known; there are {known} and conf.spark.…")


def _read(props: Mapping[str, str]) -> EngineSettings | None:
    given = config_def.with_prefix(props, own_keys.SPARK_PREFIX)
    engine = props.get(own_keys.ENGINE)
    if engine is None and not given:
        return None
    engine = _parsed(own_keys.ENGINE, (engine or SPARK).strip(), kinds.choice(SPARK, INLINE))
    fields: dict[str, Any] = {}
    conf: dict[str, str] = {}
    for name, text in given.items():
        key = own_keys.SPARK_PREFIX + name
        _check_known(key, name)
        if name in _KINDS:
            to, kind = _KINDS[name]
            fields[to] = _parsed(key, text, kind)
        elif name in _DRIVER:
            conf[f"spark.{name}"] = str(_parsed(key, text, _DRIVER[name]))
        else:
            conf[_conf_name(key, name.removeprefix(_CONF))] = text.strip()
    made = EngineSettings(engine=engine, conf=conf, **fields)
    _check_security(made)
    return made


def _parsed(key: str, text: str, kind: kinds.Kind[T]) -> T:
    try:
        return kind.parse((text,))
    except ValueError:
        raise errors.ConfigError(f"{key} is {text!r}; allowed: {kind.allowed}") from None


def _conf_name(key: str, name: str) -> str:
    if name in OWN_CONF:
        raise errors.ConfigError(f"{key} {OWN_CONF[name]}")
    if not re.fullmatch(r"spark\.\S+", name):
        raise errors.ConfigError(f"{key}: names of Spark's settings begin with spark.")
    return name


def _check_security(made: EngineSettings) -> None:
    for name in made.required_security:
        if made.conf.get(name, "true").lower() != "true":
            key = f"{own_keys.SPARK_PREFIX}{_CONF}{name}"
            raise errors.ConfigError(
                f"{key} would leave the connections of {made.name} unauthenticated or unencrypted: "
                f"write true, or {own_keys.SPARK_PREFIX}allow.insecure.spark=true"
            )
