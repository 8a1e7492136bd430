from __future__ import annotations

import pathlib

import click
import pytest

from mm2 import exit_codes
from mm2.cli import main, options
from mm2.cli.options import ConfigFileNotFoundError
from tests.support import cli_commands

READING = (
    "check",
    "config check",
    "config show",
    "config convert",
    "drill",
    "failback",
    "failover",
    "lag",
    "offsets rebuild",
    "offsets skip",
    "offsets translate",
    "pause",
    "probe",
    "incidents",
    "reload",
    "restart",
    "resume",
    "run",
    "status",
    "throttle",
    "topic reset",
    "why",
)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.delenv(options.CONFIG_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def choose(positional=None, config=None, variable=None):
    environment = {} if variable is None else {options.CONFIG_VARIABLE: variable}
    paths = [each if each is None else pathlib.Path(each) for each in (positional, config)]
    return str(options.choose_config_file(*paths, environment=environment))


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ({}, "clusters.yaml"),
        ({"variable": ""}, "clusters.yaml"),
        ({"variable": "b.yaml"}, "b.yaml"),
        ({"config": "a.yaml"}, "a.yaml"),
        ({"config": "a.yaml", "variable": "b.yaml"}, "a.yaml"),
        ({"positional": "a.yaml"}, "a.yaml"),
        ({"positional": "a.yaml", "variable": "b.yaml"}, "a.yaml"),
        ({"positional": "a.yaml", "config": "./a.yaml"}, "a.yaml"),
        ({"config": "not there.yaml"}, "not there.yaml"),
    ],
)
def test_the_command_line_wins_over_the_variable_over_the_default(given, file, empty_folder):
    for name in ("clusters.yaml", "a.yaml", "b.yaml"):
        (empty_folder / name).touch()
    assert choose(**given) == file


def test_two_different_files_are_an_error():
    with pytest.raises(click.UsageError, match=r"FILE is a\.yaml but --config is b\.yaml"):
        choose("a.yaml", "b.yaml")


def test_the_default_is_named_in_full_where_the_variable_names_another(empty_folder):
    """Printed commands leave the default out."""
    (empty_folder / "clusters.yaml").touch()
    (empty_folder / "b.yaml").touch()
    assert choose("clusters.yaml", variable="b.yaml") == str(empty_folder / "clusters.yaml")
    assert choose("clusters.yaml", variable="clusters.yaml") == "clusters.yaml"


def test_without_any_file_the_message_says_what_to_do(empty_folder):
    with pytest.raises(ConfigFileNotFoundError) as caught:
        choose()
    assert caught.value.message == (
        f"no configuration file: clusters.yaml does not exist in {empty_folder}; "
        "pass --config FILE or set MM2_CONFIG"
    )
    with pytest.raises(ConfigFileNotFoundError) as caught:
        choose(variable="/no/such.yaml")
    assert "the file /no/such.yaml named by MM2_CONFIG does not exist" in caught.value.message


def words_of(name: str) -> list[str]:
    """A call of the command that lacks nothing but its configuration."""
    more = {
        "drill": ["--from", "east", "--to", "west"],
        "failback": ["--from", "east", "--to", "west"],
        "failover": ["--from", "east", "--to", "west"],
        "offsets skip": ["east->west", "--offset", "7"],
        "offsets translate": ["--group", "g"],
        "pause": ["east->west"],
        "restart": ["east->west"],
        "resume": ["east->west"],
        "throttle": ["east->west", "1MB"],
        "topic reset": ["east->west", "orders", "--from", "earliest"],
        "why": ["orders"],
    }
    return [*name.split(), *more.get(name, [])]


@pytest.mark.parametrize("name", READING)
def test_every_command_that_reads_the_configuration_needs_one(name, empty_folder, capsys):
    assert main.run_command(words_of(name)) == exit_codes.BAD_INPUT
    assert (
        f"no configuration file: clusters.yaml does not exist in {empty_folder}"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("how", ["-c", "--config", "MM2_CONFIG"])
def test_every_command_takes_it_by_option_and_by_variable(
    name, how, empty_folder, capsys, monkeypatch
):
    """Told by what is wrong with it, or by nobody's running it."""
    monkeypatch.setenv("MM2_RUN_DIR", str(empty_folder / "run"))
    file = empty_folder / "wrong.yaml"
    file.write_text("nothing: here\n")
    words = words_of(name)
    if how == "MM2_CONFIG":
        monkeypatch.setenv(how, str(file))
    else:
        words += [how, str(file)]
    assert main.run_command(words) != exit_codes.DONE
    told = capsys.readouterr().err
    assert f"{file}:1: nothing: is not a known section" in told or f"runs {file} on this" in told


@pytest.mark.parametrize(
    "words", [["status", "a.yaml", "-c", "b.yaml"], ["why", "a.yaml", "orders", "-c", "b.yaml"]]
)
def test_commands_refuse_two_different_files(words, capsys):
    assert main.run_command(words) == exit_codes.BAD_INPUT
    assert "pass the configuration file only once" in capsys.readouterr().err


def test_no_command_that_reads_the_configuration_is_missing_here():
    takes = {
        name
        for name, command in cli_commands.every()
        if any("--config" in parameter.opts for parameter in command.params)
    }
    assert takes == set(READING)
