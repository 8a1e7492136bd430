from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from mm2.cli import completion, main

ROOT = pathlib.Path(__file__).parents[4]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_has_its_script(shell, capsys):
    assert main.run_command(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert f"_MM2_COMPLETE={shell}_complete" in text


def test_an_unknown_shell_is_bad_input():
    assert main.run_command(["completion", "tcsh"]) == 2


def test_the_shell_gets_subcommands_of_subcommands():
    done = subprocess.run(
        [sys.executable, "-m", "mm2.cli.main"],
        cwd=ROOT,
        env={
            **os.environ,
            "_MM2_COMPLETE": "bash_complete",
            "COMP_WORDS": "mm2 config s",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == "plain,show\n", done.stderr
