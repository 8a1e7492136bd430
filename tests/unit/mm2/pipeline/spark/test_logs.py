from __future__ import annotations

from pathlib import Path

from mm2.pipeline.spark import logs


def test_the_log_is_bounded_and_where_it_was_asked_for():
    text = logs.log4j2_properties(Path("/var/log/mm2/spark.log"))
    assert "appender.file.fileName = /var/log/mm2/spark.log\n" in text
    assert "appender.file.policies.size.size = 10MB\n" in text
    assert "appender.file.strategy.max = 3\n" in text
    assert "console" not in text.lower()


def test_every_value_survives_the_properties_file():
    text = logs.properties_file({"a.b": "c:\\d\n=e", "k ey": "  two blanks", "url": "x://h:1#f!"})
    assert text == ("a.b=c\\:\\\\d\\n\\=e\nk\\ ey=\\ \\ two blanks\nurl=x\\://h\\:1\\#f\\!\n")
