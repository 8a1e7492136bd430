"""What a cluster answers instead of doing what was asked, as far as callers decide by it.

Everything else is a plain `RetriableError` or `FatalError`. Raised by the adapters of this room,
made in `translate_errors`.
"""

from __future__ import annotations

from connect_runtime.base import errors


class UnreachableError(errors.RetriableError):
    """No broker answered in time: wrong address, network, or the cluster is down."""


class AuthenticationError(errors.FatalError):
    """The brokers refuse our credentials, or we refuse their certificate."""


class NotAuthorizedError(errors.FatalError):
    """We are known to the cluster, and may not do this."""


class TopicMissingError(errors.FatalError):
    """The topic does not exist, or we may not know that it does."""


class TopicExistsError(errors.FatalError):
    """Somebody else created the topic before us."""


class FlowLogFullError(errors.RetriableError):
    """As many records as allowed wait for their acknowledgement: poll, then append again."""


class LogTruncatedError(errors.RetriableError):
    """Records that were read are gone from the log: forget them, open again, read again."""


class FlowLogBrokenError(errors.FatalError):
    """A record could not be recorded, so none behind it may be: open the log again."""


class GroupInUseError(errors.FatalError):
    """The consumer group has members: its offsets are theirs alone."""
