from __future__ import annotations

import shutil
import subprocess

import pytest

from mm2.sandbox import shell_variables
from mm2.sandbox.sandbox_errors import SandboxError

SHELLS = ("sh", "bash", "zsh", "fish")
HOSTILE = '/tmp/it\'s $HOME `id` \\ "x"/a;b'


@pytest.mark.parametrize(
    ("cluster", "variable"),
    [("east", "EAST"), ("my-cluster", "MY_CLUSTER"), ("a_B9", "A_B9"), ("1st", "_1ST")],
)
def test_a_cluster_has_a_variable_that_every_shell_takes(cluster, variable):
    assert shell_variables.make_variable_name(cluster) == variable
    assert shell_variables.make_config_variable_name(cluster) == f"{variable}_CONFIG"


@pytest.mark.parametrize("shell", [each for each in SHELLS if shutil.which(each)])
def test_a_shell_reads_back_what_was_printed(shell):
    syntax = "fish" if shell == "fish" else "sh"
    lines = shell_variables.render_exports(
        {"EAST": "a:1,b:2", "EAST_CONFIG": HOSTILE}, shell=syntax
    )
    script = lines + 'printf "%s|%s" "$EAST" "$EAST_CONFIG"'
    said = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout == f"a:1,b:2|{HOSTILE}"


def test_fish_quotes_by_backslashes():
    assert (
        shell_variables.render_exports({"A": "it's \\"}, shell="fish")
        == "set -gx A 'it\\'s \\\\'\n"
    )


@pytest.mark.parametrize("cluster", ["path", "home", "mm2", "Lang", "mm2-config", "lc-all", "uid"])
def test_no_cluster_takes_a_variable_of_the_shell(cluster):
    with pytest.raises(SandboxError, match="choose another name"):
        shell_variables.check_cluster_names([cluster])


@pytest.mark.parametrize("pair", [("a-b", "a_b"), ("east", "EAST"), ("east", "east-config")])
def test_no_two_clusters_share_a_variable(pair):
    with pytest.raises(SandboxError, match=f"{pair[0]}.*{pair[1]}.*choose other names"):
        shell_variables.check_cluster_names(pair)


def test_ordinary_names_are_fine():
    shell_variables.check_cluster_names(
        ["east", "west", "my-cluster", "primary", "backup", "a", "b"]
    )
