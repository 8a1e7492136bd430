"""Errors that plugins raise, and that the plugin API raises to them.

After a `RetriableError` the worker repeats the operation. Every other `ConnectError` fails the
record or the task, depending on the connector's `errors.tolerance`.
"""

from __future__ import annotations

from connect_runtime.base import errors

ConnectError = errors.ConnectError
RetriableError = errors.RetriableError
FatalError = errors.FatalError


class DataError(FatalError):
    """A value, schema or payload is not what it must be (Java's DataException)."""


class SchemaBuilderError(DataError):
    """A schema was described wrongly: a property set twice, a field without a name."""


class ConfigError(FatalError):
    """A configuration is invalid: an unknown, missing or unparsable value."""


class NotFoundError(FatalError):
    """What was asked for does not exist."""


class AlreadyExistsError(FatalError):
    """What was to be created exists already."""


class IllegalWorkerStateError(FatalError):
    """A plugin called its context when that was not allowed, for example after it was stopped."""


class UnsupportedOperationError(FatalError):
    """A plugin does not offer what it was asked for, such as changing its offsets."""
