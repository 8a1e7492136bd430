"""`mm2 sandbox`: real Kafka clusters on this machine, to try things out."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mm2.sandbox import failures, releases, sandbox, state

JSON_VERSION = 1

_folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Folder of the sandbox.  [default: sandbox in the cache folder]",
)


@click.group("sandbox")
def group() -> None:
    """Real Kafka clusters on this machine: up, down, status, logs.

    \b
    Examples:
      mm2 sandbox up east west
      mm2 sandbox up east --brokers 3 --set message.max.bytes=8000000
      mm2 sandbox up old --kafka-version 2.8
      mm2 sandbox up east west --secure --json > clusters.json
      mm2 sandbox logs east --tail 50
      mm2 sandbox down
    """


@group.command("up")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--brokers", type=click.Choice(["1", "3"]), default="1", help="Brokers per cluster.")
@click.option(
    "--kafka-version",
    default=releases.NEWEST.short_version,
    show_default=True,
    metavar="|".join(release.short_version for release in releases.ALL),
    help="Kafka of the brokers; old ones come with a ZooKeeper where they need it.",
)
@click.option("--secure", is_flag=True, help="TLS, SCRAM passwords and ACLs.")
@click.option(
    "--in-containers",
    is_flag=True,
    help="Run Apache's images in Docker, not Java programs of this machine.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A broker setting; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print client properties as JSON.")
@_folder_option
def up(
    *,
    names: tuple[str, ...],
    brokers: str,
    kafka_version: str,
    secure: bool,
    in_containers: bool,
    settings: tuple[str, ...],
    as_json: bool,
    folder: Path | None,
) -> None:
    """Start clusters and return when they serve."""
    request = state.Request(
        names=names,
        brokers=int(brokers),
        secure=secure,
        settings=dict(_setting(word) for word in settings),
        kafka_version=kafka_version,
        in_containers=in_containers,
    )
    with _readable_errors():
        request.check()
    with _readable_errors():
        said, started = sandbox.up(_folder(folder), request, report=_to_stderr)
    if not started:
        _to_stderr("already up")
    _print(said, as_json=as_json)
    if not as_json:
        click.echo("End it with: mm2 sandbox down" + (f" --dir {folder}" if folder else ""))


@group.command("down")
@_folder_option
def down(*, folder: Path | None) -> None:
    """End the clusters and remove their data."""
    with _readable_errors():
        was_up = sandbox.down(_folder(folder))
    _to_stderr("down" if was_up else "nothing was up")


@group.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print client properties as JSON.")
@_folder_option
def status(*, as_json: bool, folder: Path | None) -> None:
    """Show the clusters of a running sandbox."""
    with _readable_errors():
        said = sandbox.status(_folder(folder))
    if said is None or said.phase != "ready":
        _to_stderr("no sandbox is up" if said is None else f"the sandbox is {said.phase}")
        raise SystemExit(1)
    _print(said, as_json=as_json)


@group.command("logs")
@click.argument("name", required=False)
@click.option("--tail", type=click.IntRange(min=1), default=None, help="Only the last N lines.")
@_folder_option
def logs(*, name: str | None, tail: int | None, folder: Path | None) -> None:
    """Print the logs of brokers and their ZooKeepers, of all clusters or of NAME."""
    home = state.Home(_folder(folder).absolute())
    paths = sorted(
        path
        for pattern in ("broker-*/broker.log", "zookeeper/zookeeper.log")
        for path in home.clusters.glob(f"{name or '*'}/{pattern}")
    )
    if not paths:
        known = ", ".join(sorted(path.name for path in home.clusters.glob("*"))) or "none"
        raise click.ClickException(f"no logs of {name or 'any cluster'}; clusters: {known}")
    for path in paths:
        click.echo(f"==> {path.parts[-3]} {path.parts[-2]}: {path}")
        with path.open(errors="replace") as log:
            for line in deque(log, maxlen=tail):
                click.echo(line, nl=False)


def _print(said: state.State, *, as_json: bool) -> None:
    if as_json:
        clusters = {cluster.name: dict(cluster.properties) for cluster in said.clusters}
        click.echo(json.dumps({"version": JSON_VERSION, "clusters": clusters}, indent=2))
        return
    for cluster in said.clusters:
        kafka = f"Kafka {cluster.kafka_version}" + (" with ZooKeeper" if cluster.zookeeper else "")
        click.echo(f"{cluster.name}: {cluster.properties['bootstrap.servers']}  ({kafka})")
        if cluster.properties["security.protocol"] != "PLAINTEXT":
            click.echo("  with the client properties that `mm2 sandbox status --json` prints")


def _setting(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{word!r} is not KEY=VALUE", param_hint="--set")
    return key, value


def _folder(folder: Path | None) -> Path:
    return folder or sandbox.default_folder()


def _to_stderr(line: str) -> None:
    click.echo(line, err=True)


@contextmanager
def _readable_errors() -> Iterator[None]:
    """The message, not a traceback; exit code 1."""
    try:
        yield
    except failures.SandboxError as error:
        raise click.ClickException(str(error)) from error
