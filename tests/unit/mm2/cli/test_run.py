from __future__ import annotations

import socket
import sys
from contextlib import closing

import pytest

from mm2 import exit_codes
from mm2.cli import main, run
from mm2.config.mm2_settings import MetricsEndpointSettings
from mm2.metrics import collector


def refused(arguments, capsys, *, exit_code: int = exit_codes.BAD_INPUT) -> str:
    assert main.run_command(["run", *map(str, arguments)]) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    return str(captured.err)


def test_an_unknown_flow_names_the_nearest_and_all(config, capsys):
    text = refused([config, "--flow", "east->wst"], capsys)
    assert "no flow 'east->wst'; flows: east->west, west->east; did you mean 'east->west'?" in text


def test_a_timeout_goes_with_a_goal(config, capsys):
    assert "--until-caught-up" in refused([config, "--timeout", "5"], capsys)


@pytest.mark.parametrize(
    "wrong",
    [
        ["--timeout", "0", "--until-caught-up"],
        ["--throttle", "fast"],
        ["--metrics-port", "65536"],
        ["--bogus"],
    ],
)
def test_wrong_options_are_bad_input(config, wrong, capsys):
    refused([config, *wrong], capsys)


def test_a_wrong_file_is_told_with_its_lines_before_anything_starts(config, capsys):
    config.write_text(config.read_text() + "  - {from: east, too: west}\n")
    text = refused([config], capsys)
    assert f"{config}:8:" in text
    assert "did you mean 'to'?" in text
    assert "nothing was started" in text


def test_without_java_it_says_what_to_install(config, capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main.run_command(["run", str(config)]) == exit_codes.FAILED
    captured = capsys.readouterr()
    assert captured.err.startswith("mm2: Java was not found: install a JDK or JRE 17")
    assert len(captured.err.splitlines()) == 1


def test_warnings_of_the_file_are_logged_before_anything_starts(
    config, capsys, monkeypatch, tmp_path
):
    keys = "refresh.topics.enabled: false, sync.topic.configs.interval.seconds: 5"
    config.write_text(config.read_text().replace("from: east,", f"from: east, {keys},"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main.run_command(["run", str(config)]) == exit_codes.FAILED
    warning, error = capsys.readouterr().err.splitlines()
    assert "flows[0].sync.topic.configs.interval.seconds: has no effect" in warning
    assert error.startswith("mm2: Java was not found")


def test_a_metrics_port_in_use_is_a_failure_after_which_a_service_manager_tries_again(
    config, capsys, caplog
):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        config.write_text(config.read_text() + "spark: {engine: inline}\n")
        arguments = [config, "--metrics-port", port]
        text = refused(arguments, capsys, exit_code=exit_codes.FAILED)
        assert text.startswith("mm2: cannot serve metrics at 127.0.0.1")
        for each in (f"port {port}", "in use", "nothing was started", "metrics.required: false"):
            assert each in text
        config.write_text(f"{config.read_text()}metrics: {{port: {port}}}\n")
        assert f"port {port}" in refused([config], capsys, exit_code=exit_codes.FAILED)


def test_metrics_that_are_not_required_are_only_warned_of(caplog):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        settings = MetricsEndpointSettings(port=port, required=False)
        assert run.start_metrics_exporter(
            settings, collector.create_metrics_registry(), port=None
        ) == (
            None,
            ", metrics and /health are not served",
        )
    assert f"port {port}" in caplog.text
    assert "/health" in caplog.text


def test_the_port_option_wins_and_switches_metrics_on():
    settings = MetricsEndpointSettings(enabled=False)
    assert run.start_metrics_exporter(settings, collector.create_metrics_registry(), port=None) == (
        None,
        "",
    )
    exporter, note = run.start_metrics_exporter(
        settings, collector.create_metrics_registry(), port=0
    )
    assert exporter is not None
    try:
        assert note == f", metrics at {exporter.url}"
    finally:
        exporter.stop()


def test_wrong_input_is_told_before_client_libraries_are_loaded():
    assert "mm2.node.mm2_node" not in vars(run)
    assert sys.modules["mm2.cli.run"] is run
