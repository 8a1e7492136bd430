"""Errors that plugins raise, and that the plugin API raises in plugins.

After a `RetriableError` the worker repeats the operation. Any other `ConnectError` fails the record
or the task, depending on the connector's `errors.tolerance`.
"""

from __future__ import annotations

from connect_runtime.base import errors

ConnectError = errors.ConnectError
RetriableError = errors.RetriableError
FatalError = errors.FatalError


class DataError(FatalError):
    """A value, schema or payload is invalid (Java's DataException)."""


class SchemaBuilderError(DataError):
    """A schema definition is invalid: a property set twice, or a field without a name."""


class ConfigError(FatalError):
    """A configuration is invalid: a key is missing, or its value cannot be parsed or is not
    allowed."""


class NotFoundError(FatalError):
    """The requested item does not exist."""


class AlreadyExistsError(FatalError):
    """The item to create already exists."""


class IllegalWorkerStateError(FatalError):
    """A plugin used its context when that is not allowed, for example after it was stopped."""


class UnsupportedOperationError(FatalError):
    """A plugin does not support the requested operation, such as altering its offsets."""
