"""The shell variables that `mm2 sandbox env` exports for each cluster.

For cluster `my-cluster`, `MY_CLUSTER` contains its bootstrap servers, and `MY_CLUSTER_CONFIG` the
path of its client properties file for Kafka's tools (`--command-config`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from mm2.sandbox.sandbox_errors import SandboxError

SHELLS = ("sh", "fish")
"""Supported shells; `sh` also works for bash and zsh."""

_CONFIG_SUFFIX = "_CONFIG"
_RESERVED_VARIABLES = re.compile(
    "CDPATH|CLASSPATH|COLUMNS|DISPLAY|EDITOR|ENV|EUID|FPATH|GROUPS|HISTFILE|HOME|HOST|HOSTNAME|IFS"
    "|JAVA_HOME|KAFKA_OPTS|LANG|LC_.*|LD_.*|LINENO|LINES|LOGNAME|MAIL|MM2|MM2_.*|OLDPWD|OPTARG"
    "|OPTIND|PAGER|PATH|PPID|PROMPT|PS[1-4]|PWD|PYTHON.*|RANDOM|SECONDS|SHELL|SHLVL|TERM|TMPDIR|TZ"
    "|UID|USER"
)
"""Variables of shells and common programs, which a cluster's variable must not replace."""


def make_variable_name(cluster: str) -> str:
    """Convert a cluster name to a shell variable name: `my-cluster` becomes `MY_CLUSTER`, `1st`
    becomes `_1ST`."""
    made = re.sub(r"[^A-Z0-9]", "_", cluster.upper())
    return f"_{made}" if made[0].isdigit() else made


def make_config_variable_name(cluster: str) -> str:
    return make_variable_name(cluster) + _CONFIG_SUFFIX


def check_cluster_names(clusters: Iterable[str]) -> None:
    """Raise `SandboxError` if a cluster name does not map to a unique, unreserved variable."""
    owners: dict[str, str] = {}
    for cluster in clusters:
        for variable in (make_variable_name(cluster), make_config_variable_name(cluster)):
            if _RESERVED_VARIABLES.fullmatch(variable):
                raise SandboxError(
                    f"cluster name {cluster!r}: `mm2 sandbox env` would replace the variable "
                    f"{variable} of your shell; choose another name"
                )
            other = owners.setdefault(variable, cluster)
            if other != cluster:
                raise SandboxError(
                    f"cluster names {other!r} and {cluster!r}: both would use the variable "
                    f"{variable} in `mm2 sandbox env`; choose other names"
                )


def render_exports(variables: Mapping[str, str], *, shell: str) -> str:
    """Render lines for a shell to evaluate, such as `export EAST=127.0.0.1:19092`."""
    if shell == "fish":
        return "".join(
            f"set -gx {key} {_quote_for_fish(value)}\n" for key, value in variables.items()
        )
    return "".join(f"export {key}={shlex.quote(value)}\n" for key, value in variables.items())


def _quote_for_fish(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
