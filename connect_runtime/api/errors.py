"""Errors that plugins raise, and errors that the plugin API raises when plugins call it.

After a `RetriableError` the worker retries the operation. After any other `ConnectError` it skips
the record or fails the task, depending on the connector's `errors.tolerance`.
"""

from __future__ import annotations

from connect_runtime.base import errors

ConnectError = errors.ConnectError
RetriableError = errors.RetriableError
FatalError = errors.FatalError


class DataError(FatalError):
    """Raised for an invalid value, schema or payload (Java's DataException)."""


class SchemaBuilderError(DataError):
    """Raised for an invalid schema definition: a property is set twice, or a field has no name."""


class ConfigError(FatalError):
    """Raised for an invalid configuration: a key is missing, or a value cannot be parsed or is not
    allowed."""


class NotFoundError(FatalError):
    """Raised if the requested item does not exist."""


class AlreadyExistsError(FatalError):
    """Raised if the item to create already exists."""


class IllegalWorkerStateError(FatalError):
    """Raised if a plugin uses its context when this is not allowed, for example after the plugin
    was stopped."""


class UnsupportedOperationError(FatalError):
    """Raised if a plugin does not support the requested operation, such as altering its offsets."""
