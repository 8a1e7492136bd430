"""The shell variables that `mm2 sandbox env` exports for each cluster.

Cluster `my-cluster` has `MY_CLUSTER`, its bootstrap servers, and `MY_CLUSTER_CONFIG`, the path
of its client properties file, which Kafka's tools accept as `--command-config`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from mm2.sandbox.sandbox_errors import SandboxError

SHELLS = ("sh", "fish")
"""`sh` is for bash and zsh as well."""

_CONFIG_SUFFIX = "_CONFIG"
_RESERVED_VARIABLES = re.compile(
    "CDPATH|CLASSPATH|COLUMNS|DISPLAY|EDITOR|ENV|EUID|FPATH|GROUPS|HISTFILE|HOME|HOST|HOSTNAME|IFS"
    "|JAVA_HOME|KAFKA_OPTS|LANG|LC_.*|LD_.*|LINENO|LINES|LOGNAME|MAIL|MM2|MM2_.*|OLDPWD|OPTARG"
    "|OPTIND|PAGER|PATH|PPID|PROMPT|PS[1-4]|PWD|PYTHON.*|RANDOM|SECONDS|SHELL|SHLVL|TERM|TMPDIR|TZ"
    "|UID|USER"
)
"""Variables that shells and programs read: a cluster's may not replace them."""


def make_variable_name(cluster: str) -> str:
    """`MY_CLUSTER` for `my-cluster`, `_1ST` for `1st`."""
    made = re.sub(r"[^A-Z0-9]", "_", cluster.upper())
    return f"_{made}" if made[0].isdigit() else made


def make_config_variable_name(cluster: str) -> str:
    return make_variable_name(cluster) + _CONFIG_SUFFIX


def check_cluster_names(clusters: Iterable[str]) -> None:
    """Raises `SandboxError` for cluster names that cannot have variables of their own."""
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
                    f"cluster names {other!r} and {cluster!r}: both would have the variable "
                    f"{variable} in `mm2 sandbox env`; choose other names"
                )


def render_exports(variables: Mapping[str, str], *, shell: str) -> str:
    """Lines that a shell evaluates: `export EAST=127.0.0.1:19092`."""
    if shell == "fish":
        return "".join(
            f"set -gx {key} {_quote_for_fish(value)}\n" for key, value in variables.items()
        )
    return "".join(f"export {key}={shlex.quote(value)}\n" for key, value in variables.items())


def _quote_for_fish(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
