from __future__ import annotations

from connect_runtime.app import command_line, connect_distributed


def test_usage_is_javas(capsys):
    assert command_line.run_command(connect_distributed.COMMAND, ["--help"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("Usage: ConnectDistributed worker.properties\n")
    assert "connect-distributed config/connect-distributed.properties" in said


def test_wrong_settings_are_told(capsys, tmp_path):
    file = tmp_path / "worker.properties"
    assert command_line.run_command(connect_distributed.COMMAND, [str(file)]) == 2
    assert f"{file}: cannot be read: No such file" in capsys.readouterr().err
    file.write_text("bootstrap.servers=a:1\ngroup.id=\n")
    assert command_line.run_command(connect_distributed.COMMAND, [str(file)]) == 2
    said = capsys.readouterr().err
    assert f"{file}:2: group.id: String must be non-empty" in said
    assert f"{file}: config.storage.topic: is missing" in said
