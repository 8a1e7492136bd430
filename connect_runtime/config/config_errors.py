"""Configuration problems, and `SettingsError`, which reports all of them at once.

A problem states its line, its key and the allowed values. Values of sensitive keys
(`ConfigDef.Type.PASSWORD`) are never part of a message.
"""

from __future__ import annotations

import contextlib
import difflib
import pathlib
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from connect_runtime.base import config_placeholders, plurals
from connect_runtime.base.errors import FatalError
from connect_runtime.system.secure_file_access import UntrustedWriter

HIDDEN_VALUE = "[hidden]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProblem:
    """A problem in a configuration file."""

    line: int
    """Line number; 0 if the problem concerns the whole file."""
    key: str
    """Path in the file, such as `flows[0].tasks.max`; "" for the whole file."""
    text: str
    given: str | None = None
    """Value in the file, for the message. None omits the value from the message, for example
    because it is a secret."""
    allowed: str | None = None
    """The allowed values."""
    nearest: str | None = None
    """If the key is unknown, the known key that is most similar to it."""

    def describe(self, file: str) -> str:
        """Format the problem as one line: `file:line: key: problem`."""
        place = f"{file}:{self.line}" if self.line else file
        key = self.key if self.key.isprintable() else repr(self.key)
        text = f"{place}: {key + ': ' if key else ''}{_redact_login_passwords(self.text)}"
        if self.given is not None:
            text += f"; given: {_quote_value(redact_secrets_in_value(self.given))}"
        if self.allowed is not None:
            text += f"; allowed: {self.allowed}"
        if self.nearest is not None:
            text += f"; did you mean {_quote_value(self.nearest)}?"
        return text


class SettingsError(FatalError):
    """Raised if a configuration is invalid. `problems` are in file order."""

    consequence: str = ""
    """Consequence of the error for the command, such as "nothing was started", to append to the
    message. Empty to append nothing."""

    def __init__(self, file: str, problems: Iterable[ConfigProblem]) -> None:
        self.file = file
        unique = dict.fromkeys(problems)  # each flow reports the problems of inherited defaults
        self.problems = tuple(sorted(unique, key=lambda problem: problem.line))
        super().__init__(file, self.problems)

    def __str__(self) -> str:
        count = plurals.format_count(len(self.problems), "problem")
        ending = f": {self.consequence}" if self.consequence else ""
        lines = [problem.describe(self.file) for problem in self.problems]
        return "\n".join([*lines, f"{count} in {self.file}{ending}"])


@contextlib.contextmanager
def add_consequence_to_settings_error(text: str) -> Iterator[None]:
    """Append a consequence to a `SettingsError` that is raised inside this `with` block."""
    try:
        yield
    except SettingsError as error:
        error.consequence = text
        raise


def build_unreadable_file_error(file: str, text: str, *, line: int = 0) -> SettingsError:
    """Build an error for a problem that concerns the whole file."""
    return SettingsError(file, [ConfigProblem(line=line, key="", text=text)])


def find_nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to a mistyped one, or None if none is similar."""
    candidates = sorted(set(known))
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def _quote_value(text: str) -> str:
    """Quote a value from the file, and escape it if it contains control characters."""
    if text == HIDDEN_VALUE:
        return text
    return f"'{text}'" if text.isprintable() else repr(text)


_SECRET_NAME = re.compile(
    r"(?:secret|password|passwd|pwd|passphrase|token|credential)[^.]*$"
    r"|(?:secret|access|account|private|api)[._-]?key"
    r"|credentials?[._-]|auth\.user\.info$|[._-]sas$",
    re.IGNORECASE,
)
"""Pattern of key names whose values are secret. Only the last part of a key is checked, because a
cluster may be named "token"."""
_SECRET_SUFFIXES = (
    "sasl.jaas.config",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.truststore.certificates",
)
_PUBLIC_SUFFIXES = ("file", "path", "location", "url", "enabled", "mechanism", ".ms", ".name")
"""Suffixes of key names that describe where a secret is stored or how it is used, not the secret
itself."""
_SECRET_ASSIGNMENT = re.compile(
    r"((?:secret|password|passwd|pwd|passphrase|token|credential"
    r"|(?:access|account|private|api)[._-]?key)"
    r"[\w.-]{0,64}(?:\s{0,8}=\s{0,8}|[\"']\s{0,8}:\s{0,8}|:\s{1,8}))"
    r"""("[^"]*"?|'[^']*'?|[^\s&;]+)""",
    re.IGNORECASE,
)
"""Matches a secret inside a value: in a Java option (`-D…Password=x`), in the query of a URL
(`?client_secret=x`), and in JSON or YAML (`password: x`). An unquoted key requires a blank after
the colon, because the text after the colon may otherwise be a port."""
_URL_SIGNATURE = re.compile(r"([?&;](?:sig|signature)=)[^\s&;]+", re.IGNORECASE)
"""Matches the signature of a URL that grants access without a login, such as an Azure shared access
signature."""
_URL_PASSWORD = re.compile(r"(//[^/\s:@]{0,256}:)[^/\s]{1,256}(?=@)")
"""Matches the password up to the last @, because a password may contain this character."""
_LOGIN_PASSWORD = re.compile(
    r"""((?:^|[\s,;="'])(?!(?:User|Group|jdbc):)[^/\s:@,;="']{1,256}:)[^/\s,]{1,256}(?=@)"""
)
"""Matches the password in `user:password@host`, the form of a URL without its scheme. Does not
match Kafka principals such as `User:alice@REALM` and JDBC addresses, which contain no password
between the colon and the @."""


def is_sensitive_key(name: str) -> bool:
    """Return whether the key's name indicates that its value is a secret."""
    lower = name.lower()
    if lower.endswith(_SECRET_SUFFIXES):
        return True
    return bool(_SECRET_NAME.search(name)) and not lower.endswith(_PUBLIC_SUFFIXES)


def redact_secrets_in_value(value: str) -> str:
    """Replace the secrets in the value of a key that is not itself sensitive."""
    value = _URL_SIGNATURE.sub(
        lambda found: found[1] + HIDDEN_VALUE, _redact_login_passwords(value)
    )
    return _SECRET_ASSIGNMENT.sub(lambda found: found[1] + HIDDEN_VALUE, value)


def _redact_login_passwords(text: str) -> str:
    """Replace each password in a URL, or in a string of the form `user:password@host`."""
    for pattern in (_URL_PASSWORD, _LOGIN_PASSWORD):
        text = pattern.sub(lambda found: found[1] + HIDDEN_VALUE, text)
    return text


def build_placeholder_problems(
    values: Iterable[tuple[int, str, str]], because: str
) -> list[ConfigProblem]:
    """Build a problem for each value that contains a reference such as `${file:path:key}`.

    Call this for a configuration file that another user can change. With a reference, that user
    could make this process read any file or environment variable and send the content to any
    address. `values` contains tuples (line, key, value). `because` is the end of the message: who
    can change the file, and how to prevent this.
    """
    return [
        ConfigProblem(line=line, key=key, text=f"refers to a value outside of this file, {because}")
        for line, key, text in values
        if any(config_placeholders.find_placeholders(text))
    ]


def explain_other_user_write_access(
    path: pathlib.Path | None, writer: UntrustedWriter
) -> tuple[str, str]:
    """Return two parts of a message: which other user can write to a file or its directory, and how
    to prevent this.

    `path` is the file, which the message calls "this file". If `path` is None, the message contains
    the path of the writable file or directory instead.
    """
    who = "other users" if writer.owner is None else f"user id {writer.owner}"
    if path is None:
        what = str(writer.path)
    else:
        what = "this file" if writer.path == path else f"its directory {writer.path}"
    if writer.owner is None:
        remedy = f"run: chmod go-w {shlex.quote(str(writer.path))}"
    else:
        copied = "it" if path is None else "the file"
        remedy = f"copy {copied} to a directory owned by root or by the user who runs this process"
    return f"{who} can write to {what}", remedy
