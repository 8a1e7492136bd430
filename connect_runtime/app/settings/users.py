"""Who may use the REST API under basic authentication, found as Kafka Connect finds them.

`KAFKA_OPTS` names a JAAS file (`-Djava.security.auth.login.config`), and its entry `KafkaConnect` a
properties file with a password for each user. Java: PropertyFileLoginModule.
"""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Mapping

from connect_runtime.adapters.config import properties_source
from connect_runtime.api import errors
from connect_runtime.rest import basic_auth
from connect_runtime.system import file_bytes

OPTIONS = "KAFKA_OPTS"
_BYTES_MAX = 4 * 1024 * 1024
_JAAS = "-Djava.security.auth.login.config="


def read(environment: Mapping[str, str], folder: pathlib.Path) -> dict[str, str]:
    """Passwords by user; empty: everybody is let in. Raises `ConfigError`."""
    jaas = folder / _jaas_file(environment.get(OPTIONS, ""))
    users = folder / basic_auth.users_file(_text(jaas, "utf-8"))
    try:
        return properties_source.parse(_text(users, "iso-8859-1"))
    except ValueError as error:
        raise errors.ConfigError(f"basic authentication: {users}: {error}") from None


def _jaas_file(options: str) -> str:
    try:
        given = shlex.split(options)
    except ValueError:
        raise errors.ConfigError(f"basic authentication: {OPTIONS} has an open quote") from None
    found = [each.removeprefix(_JAAS) for each in given if each.startswith(_JAAS)]
    if not found or not found[-1]:
        raise errors.ConfigError(
            f"basic authentication needs a JAAS file: set the environment's {OPTIONS} to"
            f" {_JAAS}/path/of/jaas.conf"
        )
    return found[-1].removeprefix("=")


def _text(file: pathlib.Path, encoding: str) -> str:
    try:
        return file_bytes.read(file, most=_BYTES_MAX).decode(encoding)
    except OSError as error:
        raise errors.ConfigError(
            f"basic authentication: cannot read {file}: {error.strerror}"
        ) from None
    except UnicodeDecodeError:
        raise errors.ConfigError(f"basic authentication: {file} is no UTF-8 text") from None
