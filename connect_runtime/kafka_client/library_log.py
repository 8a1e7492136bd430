"""What librdkafka logs goes to children of the Python logger `librdkafka`, one for each cluster,
handed out whenever a client is polled: without secrets, and without what was just said."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import urllib.parse
from collections.abc import Collection

from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.wire.codec import token_request

LOGGER = logging.getLogger("librdkafka")
_BEFORE_ANSWERS = (
    'Failed to retrieve OIDC token from "',
    "Failed to acquire SASL OAUTHBEARER token",
)
_NO_JSON = "Response is not JSON encoded"
_STATUS = re.compile(r" \([0-9]{3}\)$")
_STATUS_CHARS = len(" (401)")
_QUIET_S = 30.0
_TEXTS_MAX = 200
_DURATION = re.compile(r"\(after \d{1,20}ms in state [^)]{0,200}\)|(?<!\d)\d++ms\b")


def logger(access: kafka_access.Access) -> logging.Logger:
    """That of a cluster's clients, named after it, or after its addresses where it has no name."""
    addresses = ",".join(access.bootstrap)
    found = LOGGER.getChild(access.name or hashlib.sha256(addresses.encode()).hexdigest()[:8])
    discretion = next((each for each in found.filters if isinstance(each, _Discretion)), None)
    if discretion is None:
        discretion = _Discretion()
        found.addFilter(discretion)
    discretion.forms = discretion.forms | forms(access)
    return found


def forms(access: kafka_access.Access) -> frozenset[str]:
    """Of the secret of an issuer's: as it is, and as it is sent where
    `sasl.oauthbearer.header.urlencode` is on."""
    secret = access.secret
    return frozenset({secret, urllib.parse.quote_plus(secret)} if secret else ())


def hidden(text: str, forms: Collection[str]) -> str:
    """The text without any of these, and without the answer of an issuer of tokens."""
    text = _without_answer(text)
    for each in sorted(forms, key=len, reverse=True):
        text = text.replace(each, "…")
    return text


def _without_answer(text: str) -> str:
    """librdkafka repeats the whole body of an issuer's refusal. Any host may be named as issuer, so
    that its answers would be read in statuses: of them the error code is kept, no more."""
    for mark in _BEFORE_ANSWERS:
        before, found, rest = text.partition(mark)
        if not found:
            continue
        if mark.endswith('"'):
            endpoint, _, rest = rest.partition('"')
            mark = f'{mark}{endpoint}"'
        answer = rest.removeprefix(":").strip()
        return f"{before}{mark}: {_kept(answer)}"
    return text


def _kept(answer: str) -> str:
    if answer.startswith(_NO_JSON):
        return _NO_JSON
    status = _STATUS.search(answer[-_STATUS_CHARS:])
    body = answer if status is None else answer[: -len(status[0])]
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    code = token_request.error_code(said) if isinstance(said, dict) else None
    told = code or "the issuer's answer is not repeated"
    return told if status is None else told + status[0]


class _Discretion(logging.Filter):
    """`forms`: all that clients of this cluster have had to hide; older ones may still be there.

    While brokers are away a client tells so many times a second; once in a while is enough.
    """

    def __init__(self) -> None:
        super().__init__()
        self.forms: frozenset[str] = frozenset()
        self.told_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = hidden(record.getMessage(), self.forms), ()
        text = _DURATION.sub("", record.msg)
        if record.created - self.told_s.get(text, -_QUIET_S) < _QUIET_S:
            return False
        if len(self.told_s) >= _TEXTS_MAX:
            self.told_s.clear()
        self.told_s[text] = record.created
        return True
