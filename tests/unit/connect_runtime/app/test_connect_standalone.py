from __future__ import annotations

from connect_runtime.app import command_line, connect_standalone

WORKER = """bootstrap.servers=127.0.0.1:1
key.converter=StringConverter
value.converter=StringConverter
offset.storage.file.filename=/nowhere/offsets
"""


def test_usage_is_javas(capsys):
    assert command_line.run_command(connect_standalone.COMMAND, []) == 1
    assert capsys.readouterr().err.startswith(
        "Usage: ConnectStandalone worker.properties [connector1.properties connector2.json ...]\n"
    )


def test_wrong_settings_are_told(capsys, tmp_path):
    (tmp_path / "w").write_text("offset.storage.file.filename=\n")
    assert command_line.run_command(connect_standalone.COMMAND, [str(tmp_path / "w")]) == 2
    assert "offset.storage.file.filename: String must be non-empty" in capsys.readouterr().err


def test_every_connector_file_is_looked_at_before_anything_starts(capsys, tmp_path):
    (tmp_path / "w").write_text(WORKER)
    (tmp_path / "a.properties").write_text("connector.class=X\n")
    (tmp_path / "b.json").write_text("{")
    files = [str(tmp_path / each) for each in ("w", "a.properties", "b.json")]
    assert command_line.run_command(connect_standalone.COMMAND, files) == 3
    said = capsys.readouterr().err
    assert "failed to create connector for" in said
    assert "a.properties: the connector has no 'name'" in said
    assert "b.json: the body is not valid JSON" in said
    assert "Kafka Connect starting" not in said
