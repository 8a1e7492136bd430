"""Guides, followed literally: every `sh` block of a page in one shell, from top to bottom.

A `text` block right behind one is what it prints, among other lines: `…` stands for anything.
A `console` block is not run, and says behind that word what it needs that tests do not have: one
of `NEEDS`. Pages have no other blocks. The shell has its own processes, network and temporary
folder, which end with it. In that network the usual ports of a sandbox are in use by another
program: a guide that connects to it would write to a Kafka that is not the reader's.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system import child_processes, secure_file_access
from mm2.sandbox import sandbox_supervisor
from tests.support import loopback

_ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STRAY = re.compile(r"^\s*(```|~~~)", re.MULTILINE)
_MARK = "::block "
_FOREIGN = "::connected to the foreign program at port "
_FOREIGN_PORTS = (sandbox_supervisor.FIRST_BROKER_PORT, sandbox_supervisor.FIRST_BROKER_PORT + 100)
_FOREIGN_PROGRAM = f"""\
import os, select, socket
found = {{}}
for port in {_FOREIGN_PORTS}:
    found[socket.create_server(("127.0.0.1", port))] = port
if os.fork() == 0:
    while True:
        for each in select.select(list(found), [], [])[0]:
            each.accept()
            os.write(1, f"{_FOREIGN}{{found[each]}}\\n".encode())
"""
TOO_LONG = 124
_KEPT = ("JAVA_HOME", "LANG", "PATH")
OF_PIP = ("PIP_", "SSL_CERT_", "REQUESTS_", "http_proxy", "https_proxy", "no_proxy", "HTTP", "NO_P")
"""How this machine reaches its package index."""
NEEDS = frozenset({"docker", "kubernetes", "root", "spark-cluster"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """`line` is that of its first word in the page; `prints` is what stands behind it; `needs` why
    it is not run, "" where it is."""

    line: int
    text: str
    prints: str = ""
    needs: str = ""


def blocks(page: str) -> list[Block]:
    """What is to be typed. Raises `ValueError` for a fence that would be neither run nor, for a
    reason that is told, left out."""
    found: list[Block] = []
    typed_to = -1
    for match in _FENCE.finditer(page):
        kind, needs, text = match.groups()
        line = page.count("\n", 0, match.start()) + 2
        behind = typed_to >= 0 and not page[typed_to : match.start()].strip()
        match kind, needs:
            case "sh", "":
                found.append(Block(line=line, text=text))
            case "console", _ if needs in NEEDS:
                found.append(Block(line=line, text=text, needs=needs))
            case "text", "" if behind:
                found.append(dataclasses.replace(found.pop(), prints=text))
            case _:
                raise ValueError(f"line {line - 1}: nobody runs a block of kind {kind!r} {needs}")
        typed_to = match.end()
    if _STRAY.search(_FENCE.sub("", page)):
        raise ValueError("a fence stands inside of a line, or is never closed")
    return [each for each in found if not each.needs]


def script(asked: Sequence[Block]) -> str:
    """One shell for all of them; the first command that fails ends it, and so does a block that
    ends with one (`-e` alone passes over lists as `a && b`)."""
    lines = ["exec 2>&1", "set -eu -o pipefail"]
    for number, each in enumerate(asked):
        lines += [f"echo '{_MARK}{number}'", each.text, "test $? -eq 0"]
    return "\n".join([*lines, f"echo '{_MARK}{len(asked)}'", ""])


def wrong(asked: Sequence[Block], output: str, code: int) -> list[str]:
    """What did not work as printed."""
    said = dict(_parts(output))
    found = [line for line in output.splitlines() if line.startswith(_FOREIGN)]
    if code:
        failed = asked[max(said)]
        found.append(f"line {failed.line}: ended with {code}\n{failed.text}\n{said[max(said)]}")
    for number, each in enumerate(asked):
        if number in said and not (code and number == max(said)):
            missing = _not_printed(each.prints, said[number])
            found += [f"line {each.line}: {line!r} is not in\n{said[number]}" for line in missing]
    return found


def _parts(output: str) -> Iterator[tuple[int, str]]:
    for part in output.split(_MARK)[1:]:
        number, _, said = part.partition("\n")
        yield int(number), said


def _not_printed(expected: str, said: str) -> list[str]:
    """Lines that did not come, or not in this order."""
    rest = iter([_plain(line) for line in said.splitlines()])
    missing = []
    for line in filter(str.strip, expected.splitlines()):
        pattern = re.compile(".*".join(map(re.escape, _plain(line).split("…"))))
        if not any(pattern.search(each) for each in rest):
            missing.append(line)
    return missing


def _plain(line: str) -> str:
    return " ".join(line.split())


def follow(
    asked: Sequence[Block], *, folder: Path, timeout_s: float, checkout: Path | None = None
) -> tuple[int, str]:
    """Run them in `folder`, which is empty but for a home that has Kafka's jars: the exit code, and
    all that was printed. `TOO_LONG` is the code where `timeout_s` was not enough.

    With `checkout` they run in a copy of what it has under version control, with the network of
    this machine, and without mm2 on the path.
    """
    home, here, scratch = (folder / name for name in ("home", "here", "t"))
    for each in (here, scratch):
        each.mkdir(parents=True)
    _fill(home / ".cache" / "mm2")
    given = {"HOME": str(home), "TMPDIR": str(scratch), "TERM": "dumb", "COLUMNS": "160"}
    kept = {key for key in os.environ if key in _KEPT or (checkout and key.startswith(OF_PIP))}
    given |= {key: os.environ[key] for key in kept}
    apart = ["unshare", "--mount", "--mount-proc", "--pid", "--fork", "--kill-child"]
    ready = "mount --make-rprivate /"
    if checkout is None:
        given["PATH"] = f"{Path(sys.executable).parent}:{given['PATH']}"
        given["PYTHONPATH"] = str(_ROOT)
        apart.append("--net")
        foreign = shlex.join([sys.executable, "-I", "-S", "-c", _FOREIGN_PROGRAM])
        ready += f" && {loopback.UP} && {foreign}"
    else:
        given["PATH"] = _without_environment(given["PATH"])
        here = _copied(checkout, here / checkout.name)
    (folder / "guide.sh").write_text(script(asked))
    guide = shlex.quote(str(folder / "guide.sh"))
    with (folder / "output").open("wb") as output:
        inside = ["sh", "-c", f"{ready} && exec bash {guide}"]
        child = child_processes.start_process([*apart, *inside], output=output, env=given, cwd=here)
    code = child.wait(timeout_s)
    if code is None:
        child.kill()
    said = (folder / "output").read_text(errors="replace")
    return TOO_LONG if code is None else code, said


def _without_environment(path: str) -> str:
    """Where programs are looked for, but for the environment that the tests run in."""
    own = str(Path(sys.executable).parent)
    return ":".join(each for each in path.split(":") if each != own)


def _copied(checkout: Path, to: Path) -> Path:
    argv = ["git", "-C", str(checkout), "ls-files", "-z"]
    listed = subprocess.run(argv, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, listed):
        if (checkout / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, to / name)
    return to


def _fill(cache: Path) -> None:
    """With what a first run would fetch or make."""
    cache.mkdir(parents=True)
    for each in secure_file_access.find_user_cache_directory().iterdir():
        if each.name.startswith("kafka-4"):
            (shutil.copytree if each.is_dir() else shutil.copy2)(each, cache / each.name)
