"""`mm2 sandbox`: starts, inspects and removes real Kafka clusters on this machine."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mm2 import exit_codes
from mm2.cli import terminal_output
from mm2.sandbox import kafka_releases, kafka_tools, sandbox_lifecycle, shell_variables
from mm2.sandbox.sandbox_errors import SandboxError, UnknownClusterError
from mm2.sandbox.sandbox_state import SandboxFolder, SandboxRequest, SandboxState

if TYPE_CHECKING:
    from mm2.sandbox.server_health import ServerHealth


JSON_VERSION = 1
_OPEN_TO_LOCAL_USERS = (
    "no login is required: every local user who can connect to these clusters can read your files; "
    "use --secure on a shared machine"
)

_folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Directory of the sandbox.  [default: sandbox in the cache directory]",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("sandbox")
def sandbox_group() -> None:
    """Start, use, inspect and remove real Kafka clusters on this machine.

    \b
    Examples:
      mm2 sandbox up east west
      eval "$(mm2 sandbox env)"; echo $EAST
      mm2 sandbox kafka topics --cluster east --create --topic orders
      mm2 sandbox status
      mm2 sandbox up east --brokers 3 --set message.max.bytes=8000000
      mm2 sandbox up old --kafka-version 2.8
      mm2 sandbox up east west --secure --json > clusters.json
      mm2 sandbox logs east --tail 50
      mm2 sandbox down
    """


@sandbox_group.command("up")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--brokers", type=click.Choice(["1", "3"]), default="1", help="Brokers per cluster.")
@click.option(
    "--kafka-version",
    default=kafka_releases.NEWEST_RELEASE.short_version,
    show_default=True,
    metavar="|".join(release.short_version for release in kafka_releases.ALL_RELEASES),
    help="Kafka version of the brokers; ZooKeeper is started for versions that need it.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Enable TLS, SCRAM authentication and ACLs; not for versions that need ZooKeeper.",
)
@click.option(
    "--in-containers",
    is_flag=True,
    help="Run Apache's Docker images instead of local Java processes.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Broker setting, such as message.max.bytes=8000000; repeatable.",
)
@_json_option
@_folder_option
def up_command(
    *,
    names: tuple[str, ...],
    brokers: str,
    kafka_version: str,
    secure: bool,
    in_containers: bool,
    settings: tuple[str, ...],
    as_json: bool,
    folder: Path | None,
) -> int:
    """Start clusters and wait until they accept requests.

    If another process uses a preferred port, a free port is used instead and reported. --json
    prints the client properties of each cluster and the state of each broker.

    Without --secure, the clusters require no login, and every local user who can connect to them
    can read all files that you can read. Use --secure on machines that you share with other users.
    """
    request = SandboxRequest(
        names=names,
        brokers=int(brokers),
        secure=secure,
        settings=dict(_parse_broker_setting(word) for word in settings),
        kafka_version=kafka_version,
        in_containers=in_containers,
    )
    try:
        request.validate()
    except SandboxError as error:
        raise click.UsageError(str(error)) from error
    with _convert_sandbox_errors():
        state, started = sandbox_lifecycle.start_sandbox(
            _resolve_sandbox_directory(folder), request, report=_print_to_stderr
        )
    if not started:
        _print_to_stderr("already up")
    for line in sandbox_lifecycle.describe_ports_in_use(state):
        _print_to_stderr(line)
    if not all(each.is_secure for each in state.clusters):
        _print_to_stderr(_OPEN_TO_LOCAL_USERS)
    servers = _check_server_health(state)
    if as_json:
        _print_sandbox_json(state, servers)
    else:
        _print_clusters(state, servers, every_broker=False)
        _print_next_commands(folder, state)
    return _choose_health_exit_code(servers, folder)


@sandbox_group.command("down")
@_json_option
@_folder_option
def down_command(*, as_json: bool, folder: Path | None) -> int:
    """Stop the clusters and remove their data."""
    with _convert_sandbox_errors():
        was_up = sandbox_lifecycle.stop_sandbox(_resolve_sandbox_directory(folder))
    if as_json:
        click.echo(json.dumps({"version": JSON_VERSION, "was_up": was_up}))
    else:
        _print_to_stderr("sandbox stopped and removed" if was_up else "no sandbox was running")
    return exit_codes.DONE


@sandbox_group.command("status")
@_json_option
@_folder_option
def status_command(*, as_json: bool, folder: Path | None) -> int:
    """Show the clusters and the health of each broker.

    A metadata request is sent to each broker: the broker is `up`, `dead` (its process has exited)
    or `not answering` (no response within 10 s). --json also prints the client properties of each
    cluster.
    """
    with _convert_sandbox_errors():
        state = sandbox_lifecycle.read_status(_resolve_sandbox_directory(folder))
    if state is None or state.phase != "ready":
        if as_json:
            _print_sandbox_json(state, [])
        _print_to_stderr(
            f"no sandbox is running in {_resolve_sandbox_directory(folder)}"
            if state is None
            else f"the sandbox is {state.phase}"
        )
        return exit_codes.FAILED
    servers = _check_server_health(state)
    if as_json:
        _print_sandbox_json(state, servers)
    else:
        _print_clusters(state, servers, every_broker=True)
    return _choose_health_exit_code(servers, folder)


@sandbox_group.command("env", short_help="Print addresses as shell variables.")
@click.option(
    "--shell",
    type=click.Choice(shell_variables.SHELLS),
    default="sh",
    show_default=True,
    help="Shell syntax of the output; sh also for bash and zsh.",
)
@_json_option
@_folder_option
def env_command(*, shell: str, as_json: bool, folder: Path | None) -> int:
    """Print shell variables with the addresses of the clusters.

    For a cluster `east`: EAST has the bootstrap servers, EAST_CONFIG is a client properties file
    for `--command-config` of Kafka's tools, with TLS settings and passwords of a secure cluster.
    For a cluster `my-cluster`: MY_CLUSTER and MY_CLUSTER_CONFIG.

    \b
    Examples:
      eval "$(mm2 sandbox env)"                     bash, zsh, sh
      mm2 sandbox env --shell fish | source         fish
      kafka-topics.sh --bootstrap-server $EAST --command-config $EAST_CONFIG --list
    """
    with _convert_sandbox_errors():
        state = sandbox_lifecycle.read_ready_state(_resolve_sandbox_directory(folder))
    found = sandbox_lifecycle.make_shell_variables(_resolve_sandbox_directory(folder), state)
    if as_json:
        click.echo(json.dumps({"version": JSON_VERSION, "variables": found}, indent=2))
    else:
        click.echo(shell_variables.render_exports(found, shell=shell), nl=False)
    return exit_codes.DONE


class _KafkaCommand(click.Command):
    """A click command that passes all options except `--dir` and `--cluster` unchanged to the Kafka
    tool, including `--help`."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["TOOL", "[--cluster NAME]", "[--dir DIR]", "[ARGS]..."]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] in ctx.help_option_names:
            return super().parse_args(ctx, args)
        folder, cluster = _extract_option(args, "--dir"), _extract_option(args, "--cluster")
        if not args:
            raise click.MissingParameter(ctx=ctx, param=self.params[0])
        try:
            tool = kafka_tools.find_tool(args[0])
        except SandboxError as error:
            raise click.UsageError(str(error), ctx) from error
        ctx.params = {
            "tool": tool,
            "arguments": tuple(args[1:]),
            "folder": None if folder is None else Path(folder),
            "cluster": cluster,
        }
        ctx.set_parameter_source("tool", click.core.ParameterSource.COMMANDLINE)
        return []

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Tools"):
            formatter.write_dl([(name, each.summary) for name, each in kafka_tools.TOOLS.items()])
        super().format_options(ctx, formatter)


def _complete_tool_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in kafka_tools.TOOLS if name.startswith(incomplete)]


@sandbox_group.command(
    "kafka",
    short_help="Run one of Kafka's command-line tools.",
    cls=_KafkaCommand,
    no_args_is_help=True,
)
@click.argument("tool", shell_complete=_complete_tool_name)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--cluster",
    metavar="NAME",
    help=("Cluster to use; required if the sandbox has several clusters."),
)
@_folder_option
def kafka_command(
    *, tool: str, arguments: tuple[str, ...], cluster: str | None, folder: Path | None
) -> None:
    """Run one of Kafka's own command-line tools against a cluster of the sandbox.

    TOOL is the name of Kafka's script without `kafka-` and `.sh`. ARGS are passed to it, with
    `--bootstrap-server` and, for a secure cluster, `--command-config` added. stdin and stdout are
    connected to the tool, and its status is returned.

    \b
    Examples:
      mm2 sandbox kafka topics --cluster east --create --topic orders --partitions 2
      seq 1 1000 | mm2 sandbox kafka console-producer --cluster east --topic orders
      mm2 sandbox kafka consumer-groups --cluster west --describe --all-groups
      mm2 sandbox kafka topics --help
    """
    try:
        argv = sandbox_lifecycle.make_kafka_command(
            _resolve_sandbox_directory(folder), tool, arguments, cluster=cluster
        )
    except UnknownClusterError as error:
        raise click.UsageError(str(error)) from error
    except SandboxError as error:
        raise click.ClickException(str(error)) from error
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(argv[0], argv)  # noqa: S606 - this process becomes the tool; no shell is wanted


@sandbox_group.command("logs", short_help="Print the logs of the brokers.")
@click.argument("name", required=False)
@click.option("--tail", type=click.IntRange(min=1), default=None, help="Only the last N lines.")
@_folder_option
def logs_command(*, name: str | None, tail: int | None, folder: Path | None) -> None:
    """Print the logs of brokers and ZooKeeper servers, of all clusters or of cluster NAME."""
    home = SandboxFolder(_resolve_sandbox_directory(folder).absolute())
    paths = sorted(
        path
        for pattern in ("broker-*/broker.log", "zookeeper/zookeeper.log")
        for path in home.clusters.glob(f"{name or '*'}/{pattern}")
    )
    if not paths:
        known = ", ".join(sorted(path.name for path in home.clusters.glob("*"))) or "none"
        raise click.ClickException(f"no logs of {name or 'any cluster'}; clusters: {known}")
    for path in paths:
        terminal_output.print_line(f"==> {path.parts[-3]} {path.parts[-2]}: {path}")
        with path.open(errors="replace") as log:
            for line in deque(log, maxlen=tail):
                terminal_output.print_line(line.removesuffix("\n"))


def _check_server_health(state: SandboxState) -> list[ServerHealth]:
    from mm2.sandbox import (
        server_health,  # loads Kafka's client library, which other commands do not need
    )

    return server_health.check_servers(state)


def _print_clusters(
    state: SandboxState, servers: Sequence[ServerHealth], *, every_broker: bool
) -> None:
    for cluster in state.clusters:
        version = f"Kafka {cluster.kafka_version}"
        version += " with ZooKeeper" if cluster.zookeeper else ""
        version += ", TLS and SCRAM" if cluster.is_secure else ""
        terminal_output.print_line(f"{cluster.name}: {cluster.bootstrap}  ({version})")
        for server in servers:
            if server.cluster == cluster.name and (every_broker or not server.is_up):
                address = f" at {server.address}" if server.address else ""
                terminal_output.print_line(f"  {server.name}{address}: {server.describe()}")


def _print_next_commands(folder: Path | None, state: SandboxState) -> None:
    where = _format_directory_option(folder)
    first = state.clusters[0].name
    names = ", ".join(shell_variables.make_variable_name(each.name) for each in state.clusters)
    terminal_output.print_lines(
        f"\nAddresses as shell variables ({names}):\n"
        f'  eval "$(mm2 sandbox env{where})"\n'
        "Kafka's own tools:\n"
        f"  mm2 sandbox kafka topics{where} --cluster {first} --list\n"
        "Health of the brokers (client properties with --json):\n"
        f"  mm2 sandbox status{where}\n"
        "Stop the clusters and remove their data:\n"
        f"  mm2 sandbox down{where}"
    )


def _print_sandbox_json(state: SandboxState | None, servers: Sequence[ServerHealth]) -> None:
    """Print the sandbox state as JSON.

    `clusters` contains the client properties of each cluster, as in the section `clusters` of
    `clusters.yaml`.
    """
    clusters = () if state is None else state.clusters
    ports = {
        (cluster.name, f"broker {broker.node_id}"): broker.preferred_port
        for cluster in clusters
        for broker in cluster.brokers
    }
    brokers = {
        cluster.name: [
            {
                "name": server.name,
                "address": server.address,
                "preferred_port": ports.get((server.cluster, server.name)),
                "health": server.health,
                "pid": server.pid,
                "log": server.log,
            }
            for server in servers
            if server.cluster == cluster.name
        ]
        for cluster in clusters
    }
    document = {
        "version": JSON_VERSION,
        "phase": "down" if state is None else state.phase,
        "clusters": {cluster.name: dict(cluster.properties) for cluster in clusters},
        "servers": brokers,
    }
    click.echo(json.dumps(document, indent=2))


def _choose_health_exit_code(servers: Sequence[ServerHealth], folder: Path | None) -> int:
    """Return the exit code for the servers' health. If a server is not up, print how to recreate
    the sandbox."""
    down = [f"{server.name} of {server.cluster}" for server in servers if not server.is_up]
    if not down:
        return exit_codes.DONE
    _print_to_stderr(
        f"not up: {', '.join(down)}. Brokers are not restarted automatically. To recreate the "
        f"clusters without their data, run mm2 sandbox down{_format_directory_option(folder)} "
        "and then mm2 sandbox up"
    )
    return exit_codes.FAILED


def _format_directory_option(folder: Path | None) -> str:
    return f" --dir {shlex.quote(str(folder))}" if folder else ""


def _extract_option(args: list[str], name: str) -> str | None:
    """Remove the first `NAME VALUE` or `NAME=VALUE` from the arguments and return its value.

    A word that begins with a dash is not accepted as the value, because `kafka-acls.sh` has its own
    flag `--cluster`.
    """
    for at, word in enumerate(args):
        if word.startswith(f"{name}="):
            del args[at]
            return word.partition("=")[2]
        if word == name and at + 1 < len(args) and not args[at + 1].startswith("-"):
            value = args[at + 1]
            del args[at : at + 2]
            return value
    return None


def _parse_broker_setting(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{word!r} is not KEY=VALUE", param_hint="--set")
    return key, value


def _resolve_sandbox_directory(folder: Path | None) -> Path:
    return folder or sandbox_lifecycle.find_default_directory()


def _print_to_stderr(line: str) -> None:
    terminal_output.print_line(line, err=True)


@contextmanager
def _convert_sandbox_errors() -> Iterator[None]:
    """Convert a `SandboxError` to a click error inside a `with` block: the message is printed
    without a traceback, and the exit code is 1."""
    try:
        yield
    except SandboxError as error:
        raise click.ClickException(str(error)) from error
