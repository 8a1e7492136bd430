"""What the adapters of this room raise, as far as callers decide by it.

What a cluster answers instead of doing what was asked is in `connect_runtime.kafka_client.errors`.
"""

from __future__ import annotations

from connect_runtime.base import errors


class FlowLogFullError(errors.RetriableError):
    """As many records as allowed wait for their acknowledgement: poll, then append again."""


class LogTruncatedError(errors.RetriableError):
    """Records that were read are gone from the log: forget them, open again, read again."""


class FlowLogBrokenError(errors.FatalError):
    """A record could not be recorded, so none behind it may be: open the log again."""


class GroupInUseError(errors.FatalError):
    """The consumer group has members: its offsets are theirs alone."""


class NoAuthorizerError(errors.FatalError):
    """The brokers have no authorizer, so there are no ACLs."""
