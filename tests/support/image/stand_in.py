"""The image without a Docker daemon: this machine is its base image, seen through an overlay.

Each line of the Dockerfile is carried out as it stands, at its own absolute paths, in a mount
namespace: what it writes goes to a folder of ours. Then the result is run as Docker would: as the
file's user without any right of root's, on a read-only root, with nothing to write to but what is
named, in process and network namespaces of its own. Neither the checkout nor anybody's home is to
be seen there.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from connect_runtime.system import java_installation
from connect_runtime.system.child_processes import ChildProcess
from tests.support import guides, loopback
from tests.support.image.dockerfile import Ignored, Instruction, Stage

BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STEP_S = 900.0
BROUGHT = {"openjdk-17-jre-headless": "java"}
"""Debian packages of the Dockerfile: the command of this machine that stands for each. Tests do not
install packages."""
_HIDDEN = ("/home", "/mnt", "/srv", "/work")


class CannotStandInError(Exception):
    """This machine lets us make no mount namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place that may be written to while the image runs: a folder of this machine, or a tmpfs
    as `docker run --tmpfs` makes it, where programs lie only with `executable`."""

    path: str
    folder: Path | None = None
    executable: bool = False


@dataclass(slots=True)
class _Layer:
    """What one stage has written; `environment` is that of its instructions."""

    folder: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": BASE_PATH})
    at: str = "/"

    @property
    def upper(self) -> Path:
        return self.folder / "upper"


def check() -> None:
    """Raises `CannotStandInError` where no overlay may be mounted."""
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        raise CannotStandInError(tried.stderr.strip())


class StandIn:
    """Built once, run as often as wanted. `folder` holds what is written, 1.5 GB."""

    def __init__(self, folder: Path, *, checkout: Path, stages: Sequence[Stage]) -> None:
        self._folder = folder
        self._checkout = checkout
        self._stages = stages
        ignoring = checkout / "deploy" / "Dockerfile.dockerignore"
        self._ignored = Ignored(ignoring.read_text())
        self._layers: dict[str, _Layer] = {}
        self.last = stages[-1]

    def build(self) -> None:
        """Carry every instruction out. Raises `AssertionError` with what a failed one printed."""
        for number, stage in enumerate(self._stages):
            name = stage.name or str(number)
            layer = self._begin(self._folder / name)
            self._layers[name] = layer
            for each in stage.instructions:
                self._carry_out(layer, each)
            layer.environment = stage.environment({"PATH": BASE_PATH})
            _open_base(layer)

    @property
    def root(self) -> Path:
        """What the last stage has written, at the paths it has there."""
        return self._final.upper

    @property
    def built(self) -> Path:
        """What the first stage has written."""
        return next(iter(self._layers.values())).upper

    def command(
        self,
        *words: str,
        places: Sequence[Place],
        files: Mapping[str, Path] | None = None,
        user: int | None = None,
    ) -> list[str]:
        """What runs these words as `docker run --read-only [--user …]` would. `files` are mounted,
        and are what they are read-only."""
        final = self._final
        uid = user or self._user
        script = [*self._mounted(final), *_sealed(final, places, files or {})]
        script.append(
            shlex.join(["exec", "chroot", str(final.folder / "root"), *self._as_user(uid), *words])
        )
        apart = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
        return [*apart, "sh", "-euc", "\n".join(script)]

    @property
    def own_words(self) -> tuple[str, ...]:
        """ENTRYPOINT and CMD."""
        return (*self.last.last("ENTRYPOINT").words, *self.last.last("CMD").words)

    def inside(
        self, of: int, *words: str, user: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`docker exec`, in the environment of the first process inside: `of` is its id, here."""
        there = Path(f"/proc/{of}/environ").read_text().strip("\0").split("\0")
        entered = ["nsenter", "--target", str(of), "--mount", "--pid", "--net", "--ipc", "--root"]
        argv = [*entered, *self._as_user(user or self._user, there), *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60.0, check=False)

    @property
    def _final(self) -> _Layer:
        return list(self._layers.values())[-1]

    @property
    def _user(self) -> int:
        user, _, group = self.last.last("USER").text.partition(":")
        assert user == group, "one id for both, and a number: platforms ask whether it is root's"
        return int(user)

    def _as_user(self, uid: int, environment: Sequence[str] = ()) -> list[str]:
        """Without any right beyond those of a user, in the image's folder and environment, or in
        another one."""
        rights = [
            "--pdeathsig=KILL",
            "--no-new-privs",
            "--bounding-set=-all",
            "--inh-caps=-all",
            "--clear-groups",
        ]
        own = [f"{key}={value}" for key, value in self._final.environment.items()]
        given = environment or own
        there = ["env", "--chdir", self.last.last("WORKDIR").text, "--ignore-environment", *given]
        return ["setpriv", f"--reuid={uid}", f"--regid={uid}", *rights, *there]

    def _begin(self, folder: Path) -> _Layer:
        for name in ("upper", "work", "root"):
            (folder / name).mkdir(parents=True)
        return _Layer(folder)

    def _carry_out(self, layer: _Layer, each: Instruction) -> None:
        match each.name:
            case "WORKDIR":
                layer.at = each.text
                (layer.upper / each.text.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "COPY":
                self._copy(layer, each.words)
            case "RUN" if "apt-get" in each.text:
                _look_for_packages(each.text)
            case "RUN":
                self._run(layer, each)
            case _:
                pass

    def _copy(self, layer: _Layer, words: Sequence[str]) -> None:
        *sources, target = [word for word in words if not word.startswith("--")]
        into = layer.upper / os.path.join(layer.at, target).lstrip("/")
        for word in words:
            if word.startswith("--from="):
                stage = self._layers[word.removeprefix("--from=")]
                (source,) = sources
                into.parent.mkdir(parents=True, exist_ok=True)
                _linked(stage.upper / source.lstrip("/"), into)
                return
        for source in sources:
            self._copy_from_context(source, into / source if target == "./" else into)

    def _copy_from_context(self, source: str, into: Path) -> None:
        assert not self._ignored(source), f"{source} is not in the context"
        found = self._checkout / source
        into.parent.mkdir(parents=True, exist_ok=True)
        if found.is_file():
            shutil.copy2(found, into)
            return

        def left_out(folder: str, names: list[str]) -> list[str]:
            where = Path(folder).relative_to(self._checkout)
            return [name for name in names if self._ignored(str(where / name))]

        shutil.copytree(found, into, ignore=left_out)

    def _run(self, layer: _Layer, each: Instruction) -> None:
        base = Path(sys.base_prefix) / "bin"
        kept = {key: value for key, value in os.environ.items() if key.startswith(guides.OF_PIP)}
        given = kept | {"HOME": os.environ.get("HOME", "/root"), "PATH": f"{base}:{BASE_PATH}"}
        there = ["chroot", str(layer.folder / "root"), "env", "--chdir", layer.at]
        there += ["--ignore-environment", *(f"{key}={value}" for key, value in given.items())]
        script = [*self._mounted(layer), shlex.join(["exec", *there, "sh", "-ec", each.text])]
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-euc", "\n".join(script)],
            capture_output=True,
            text=True,
            timeout=STEP_S,
            check=False,
        )
        assert done.returncode == 0, f"line {each.line}: {each.text}\n{done.stdout}{done.stderr}"

    def _mounted(self, layer: _Layer) -> list[str]:
        """This machine below what the layer has written, in the mount namespace of who runs it."""
        root, upper, work = (
            shlex.quote(str(layer.folder / name)) for name in ("root", "upper", "work")
        )
        hidden = [root + shlex.quote(each) for each in (*_HIDDEN, str(self._checkout))]
        return [
            "mount --make-rprivate /",
            f"mount -t overlay none -o lowerdir=/,upperdir={upper},workdir={work} {root}",
            f"mount --rbind /dev {root}/dev",
            f"mount -t proc proc {root}/proc",
            *(f"[ ! -d {each} ] || mount -t tmpfs -o mode=0755 none {each}" for each in hidden),
        ]


def _sealed(layer: _Layer, places: Sequence[Place], files: Mapping[str, Path]) -> list[str]:
    """From now on nothing can be written but in `places`; the network is our own, without a way
    out."""
    root = layer.folder / "root"
    script = [loopback.UP]
    for path, source in files.items():
        target = shlex.quote(f"{root}{path}")
        script += [f"touch {target}", f"mount --bind {shlex.quote(str(source))} {target}"]
    script.append(f"mount -o remount,ro {shlex.quote(str(root))}")
    for place in places:
        target = shlex.quote(f"{root}{place.path}")
        if place.folder is not None:
            script.append(f"mount --bind {shlex.quote(str(place.folder))} {target}")
        else:
            may = "" if place.executable else ",noexec"
            script.append(f"mount -t tmpfs -o mode=1777,nosuid,nodev{may} none {target}")
    return script


def _open_base(layer: _Layer) -> None:
    """The Python of a base image is everybody's: this machine's may lie in somebody's home."""
    where = Path("/")
    for part in Path(sys.base_prefix).parts[1:]:
        where /= part
        if not where.stat().st_mode & 0o005:
            ours = layer.upper / str(where).lstrip("/")
            ours.mkdir(parents=True, exist_ok=True)
            ours.chmod(0o755)


def _look_for_packages(text: str) -> None:
    """Is there, on this machine, what `apt-get install` would bring?"""
    asked = text.partition("install ")[2].partition("&&")[0]
    for package in [word for word in shlex.split(asked) if not word.startswith("-")]:
        assert package in BROUGHT, f"say in BROUGHT what {package} is needed for"
        assert shutil.which(BROUGHT[package], path=BASE_PATH), f"{package} is not installed here"
    java_installation.find_java()


def _linked(source: Path, into: Path) -> None:
    """A copy of a folder that shares its files: half a gigabyte need not be written twice."""
    subprocess.run(["cp", "-al", str(source), str(into)], check=True, capture_output=True)


def first_process(of: ChildProcess) -> int | None:
    """The process id, here, of the first process in the namespace; None while there is none."""
    with suppress(OSError, ValueError, IndexError):
        children = Path(f"/proc/{of.pid}/task/{of.pid}/children").read_text().split()
        return int(children[0])
    return None
