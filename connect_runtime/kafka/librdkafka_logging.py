"""Forwards librdkafka's log lines to Python loggers under `librdkafka`, one per cluster.

Lines are delivered when a client is polled. Secrets are redacted, and repeated lines are
suppressed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import urllib.parse
from collections.abc import Collection

from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol import oauthbearer

LIBRDKAFKA_LOGGER = logging.getLogger("librdkafka")
_ISSUER_ERROR_PREFIXES = (
    'Failed to retrieve OIDC token from "',
    "Failed to acquire SASL OAUTHBEARER token",
)
_NOT_JSON_MESSAGE = "Response is not JSON encoded"
_HTTP_STATUS = re.compile(r" \([0-9]{3}\)$")
_HTTP_STATUS_CHARS = len(" (401)")
_REPEAT_INTERVAL_S = 30.0
_MAX_REMEMBERED_TEXTS = 200
_DURATION_PATTERN = re.compile(r"\(after \d{1,20}ms in state [^)]{0,200}\)|(?<!\d)\d++ms\b")


def get_cluster_logger(access: KafkaClusterAccess) -> logging.Logger:
    """Return the logger for a cluster's clients.

    It is named after the cluster, or after a hash of its addresses if the cluster has no name.
    """
    addresses = ",".join(access.bootstrap)
    found = LIBRDKAFKA_LOGGER.getChild(
        access.name or hashlib.sha256(addresses.encode()).hexdigest()[:8]
    )
    redaction = next(
        (each for each in found.filters if isinstance(each, _SecretRedactingFilter)), None
    )
    if redaction is None:
        redaction = _SecretRedactingFilter()
        found.addFilter(redaction)
    redaction.forms = redaction.forms | list_secret_encodings(access)
    return found


def list_secret_encodings(access: KafkaClusterAccess) -> frozenset[str]:
    """Return the forms in which an OAuth client secret may be logged: plain and URL-encoded (see
    `sasl.oauthbearer.header.urlencode`)."""
    secret = access.oauth_secret
    return frozenset({secret, urllib.parse.quote_plus(secret)} if secret else ())


def redact_secrets(text: str, forms: Collection[str]) -> str:
    """Return the text without secrets (in the given forms) and token issuer responses."""
    text = _strip_issuer_response(text)
    for each in sorted(forms, key=len, reverse=True):
        text = text.replace(each, "…")
    return text


def _strip_issuer_response(text: str) -> str:
    """Replace a token issuer's response in a log line with its error code.

    librdkafka logs the complete body of an error response. A user may configure any host as the
    issuer, so connector statuses would otherwise reveal what any HTTP server responds.
    """
    for mark in _ISSUER_ERROR_PREFIXES:
        before, found, rest = text.partition(mark)
        if not found:
            continue
        if mark.endswith('"'):
            endpoint, _, rest = rest.partition('"')
            mark = f'{mark}{endpoint}"'
        answer = rest.removeprefix(":").strip()
        return f"{before}{mark}: {_reduce_response_to_error_code(answer)}"
    return text


def _reduce_response_to_error_code(answer: str) -> str:
    if answer.startswith(_NOT_JSON_MESSAGE):
        return _NOT_JSON_MESSAGE
    status = _HTTP_STATUS.search(answer[-_HTTP_STATUS_CHARS:])
    body = answer if status is None else answer[: -len(status[0])]
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    code = oauthbearer.read_oauth_error_code(said) if isinstance(said, dict) else None
    shown = code or "the issuer's response is not shown"
    return shown if status is None else shown + status[0]


class _SecretRedactingFilter(logging.Filter):
    """Log filter that redacts the secrets of a cluster's clients, and suppresses repeated lines.

    While brokers are unreachable, a client logs the same line many times per second.
    """

    def __init__(self) -> None:
        super().__init__()
        self.forms: frozenset[str] = frozenset()
        """Strings to redact: the plain and encoded forms of the current secrets, and of earlier
        ones that clients may still use."""
        self.logged_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact_secrets(record.getMessage(), self.forms), ()
        text = _DURATION_PATTERN.sub("", record.msg)
        if record.created - self.logged_s.get(text, -_REPEAT_INTERVAL_S) < _REPEAT_INTERVAL_S:
            return False
        if len(self.logged_s) >= _MAX_REMEMBERED_TEXTS:
            self.logged_s.clear()
        self.logged_s[text] = record.created
        return True
