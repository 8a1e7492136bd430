"""No command writes to the terminal but through `mm2.cli.terminal_output`, or as JSON."""

from __future__ import annotations

import ast
import pathlib

import click
import pytest
from rich import console

from connect_runtime.base.errors import FatalError
from connect_runtime.system.system_clock import SystemClock
from mm2 import text_format
from mm2.cli import main, terminal_output
from mm2.sandbox.scenarios.progress_printer import ProgressPrinter

ROOT = pathlib.Path(__file__).parents[4]
HOSTILE = "g\x1b]52;c;aGk=\x07\x1b]0;x\x07\u202e\x9b2J\nforged line"
SHOWN = r"g\x1b]52;c;aGk=\x07\x1b]0;x\x07\u202e\x9b2J\nforged line"
OWN_TEXT = {
    ("completion.py", "completion.source()"): "a script that click makes",
    ("config.py", "file.read_bytes()"): "the user's own file",
    ("config.py", "found.text"): "the user's own file in the other form",
    ("docs.py", "pages[what]()"): "a page of the documentation",
    (
        "offsets.py",
        "offset_translation_output.translation_to_csv(answer)",
    ): "leaves out groups with such names",
    ("run.py", "terminal_escape.escape_unprintable(f'mm2: {self.format_message()}')"): "escaped",
    ("sandbox.py", "shell_variables.render_exports(found, shell=shell)"): "quoted for a shell",
    (
        "command_line.py",
        "terminal_escape.escape_unprintable_except_newlines(str(error))",
    ): "escaped",
    (
        "command_line.py",
        "terminal_escape.escape_unprintable_except_newlines(shown.getvalue())",
    ): "escaped",
    ("command_line.py", "click.get_current_context().get_help()"): "help",
}


def echoed(path: pathlib.Path) -> list[str]:
    """What is given to `click.echo` and the like in a file, but for JSON and empty lines."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = ast.unparse(node.func)
        text = ast.unparse(node.args[0])
        if function in ("click.echo", "click.secho", "print") and not text.startswith("json.dumps"):
            found.append(text)
    return found


def test_every_command_prints_through_the_one_function():
    files = [*(ROOT / "mm2").rglob("*.py"), *(ROOT / "connect_runtime/app").rglob("*.py")]
    found = {
        (path.name, text)
        for path in files
        if path.name not in ("terminal_output.py", "left_behind.py")  # the latter writes a file
        for text in echoed(path)
    }
    assert found == set(OWN_TEXT)


def test_the_judge_sees_a_command_that_prints_by_itself(tmp_path):
    (tmp_path / "x.py").write_text("click.echo(f'group {name}')\nclick.echo(json.dumps(x))\n")
    assert echoed(tmp_path / "x.py") == ["f'group {name}'"]


def test_a_line_is_one_line(capsys):
    terminal_output.print_line(f"group {HOSTILE}")
    terminal_output.print_line(HOSTILE, err=True)
    terminal_output.print_lines("ours\nours \x1b[2J")
    captured = capsys.readouterr()
    assert captured.out == f"group {SHOWN}\nours\nours \\x1b[2J\n"
    assert captured.err == f"{SHOWN}\n"


def test_columns_are_as_wide_as_what_is_shown():
    lines = list(text_format.format_columns(("GROUP", "LAG"), [(HOSTILE, "1"), ("plain", "2")]))
    assert lines[1] == f"{SHOWN}  1"
    assert lines[2].index("2") == len(SHOWN) + 2


@pytest.mark.parametrize(
    "error",
    [
        FatalError(f"group {HOSTILE} cannot be read"),
        click.ClickException(f"group {HOSTILE}"),
        click.UsageError(f"no group {HOSTILE}"),
        click.BadParameter(f"no group {HOSTILE}", param_hint="--group"),
    ],
)
def test_errors_control_no_terminal(error, monkeypatch, capsys):
    def fail(**_: object) -> int:
        raise error

    monkeypatch.setattr(main.cli, "main", fail)
    assert main.run_command([]) != 0
    told = capsys.readouterr().err
    assert all(line.isprintable() for line in told.splitlines())
    assert r"g\x1b]52;c;aGk=\x07" in told


def test_steps_control_no_terminal(capsys):
    out = console.Console(force_terminal=False, width=200)
    ProgressPrinter(SystemClock(), out).print_step(f"group {HOSTILE} [red]moved")
    told = capsys.readouterr().out
    assert told.rstrip("\n").isprintable()
    assert f"group {SHOWN} [red]moved" in told
