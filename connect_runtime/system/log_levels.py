"""Reads and sets log levels of this process's loggers by their log4j names.

The level names of Connect's REST API are TRACE, DEBUG, INFO, WARN, ERROR, FATAL, OFF and ALL. They
are also used for cluster-wide levels. `root` is the root logger. Java: `Loggers`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from connect_runtime.base.clock_and_deadline import Clock

ROOT = "root"
LEVELS = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}


_MAX_NAMESPACE_LENGTH = 250
_MAX_NAMESPACE_PARTS = 30


def explain_invalid_namespace(namespace: str) -> str | None:
    """Return why a logger name (namespace) is not allowed; None if it is allowed.

    Long names are rejected to limit memory use: Python's `logging` keeps an object for every part
    of a logger name until the process ends.
    """
    if len(namespace) > _MAX_NAMESPACE_LENGTH or namespace.count(".") >= _MAX_NAMESPACE_PARTS:
        return (
            f"the logger name has {len(namespace)} characters and {namespace.count('.') + 1} parts;"
            f" at most {_MAX_NAMESPACE_LENGTH} characters and {_MAX_NAMESPACE_PARTS} parts are "
            "allowed"
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggerLevel:
    """A logger's level and the time of its last change."""

    level: str
    last_modified_ms: int | None = None
    """Wall-clock time of the last change through `LogLevels` in ms; None if the level was never
    changed."""


@dataclass(slots=True)
class LogLevels:
    """Reads and changes the log levels of this process.

    Thread-safe without a lock: each access to `logging` or to the times of changes is one atomic
    operation.
    """

    clock: Clock
    _modified_ms: dict[str, int] = field(default_factory=dict)

    def list_levels(self) -> dict[str, LoggerLevel]:
        """Return the levels of `root` and of every logger whose level is set, by logger name."""
        own = {each.name for each in _list_loggers() if each.level != logging.NOTSET}
        return {
            name: self._describe_level(logging.getLogger(name)) for name in sorted(own | {ROOT})
        }

    def get_level(self, name: str) -> LoggerLevel | None:
        """Return the effective level of a logger; None if no logger has this name."""
        if name.lower() == ROOT:
            return self._describe_level(logging.getLogger())
        found = [each for each in _list_loggers() if each.name == name]
        return self._describe_level(found[0]) if found else None

    def set_level(self, namespace: str, level: str) -> list[str]:
        """Set the level of a logger and of all its child loggers. Return their names.

        Creates the logger if necessary. `level` must be one of `LEVELS`, in any case, and
        `explain_invalid_namespace` must accept `namespace`.
        """
        if namespace.lower() == ROOT:
            chosen = [*_list_loggers(), logging.getLogger()]
        else:
            below = [each for each in _list_loggers() if each.name.startswith(f"{namespace}.")]
            chosen = [*below, logging.getLogger(namespace)]
        for each in chosen:
            self._set_logger_level(each, LEVELS[level.upper()])
        return sorted(each.name for each in chosen)

    def _set_logger_level(self, logger: logging.Logger, number: int) -> None:
        if logger.getEffectiveLevel() == number:
            return
        logger.setLevel(number)
        self._modified_ms[logger.name] = self.clock.wall_ms()

    def _describe_level(self, logger: logging.Logger) -> LoggerLevel:
        number = logger.getEffectiveLevel()
        below = [name for name, each in LEVELS.items() if each <= max(number, LEVELS["ALL"])]
        return LoggerLevel(level=below[-1], last_modified_ms=self._modified_ms.get(logger.name))


def _list_loggers() -> list[logging.Logger]:
    """Return all loggers of the process except the root logger."""
    known = list(logging.Logger.manager.loggerDict.values())
    return [each for each in known if isinstance(each, logging.Logger)]
