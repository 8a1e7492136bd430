"""Where Spark's own noise goes: a file of bounded size, never the terminal of `mm2 run`."""

from __future__ import annotations

from pathlib import Path

LOG_BYTES = "10MB"
LOG_FILES = 3


def log4j2_properties(log: Path) -> str:
    """A Log4j 2 configuration that writes to `log` and keeps LOG_FILES older ones of LOG_BYTES."""
    return f"""\
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}}{{UTC}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = {LOG_BYTES}
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = {LOG_FILES}
logger.jetty.name = org.sparkproject.jetty
logger.jetty.level = warn
logger.metrics.name = org.apache.spark.metrics
logger.metrics.level = warn
"""


def properties_file(properties: dict[str, str]) -> str:
    """Java properties, UTF-8; every value survives, line breaks included."""
    return "".join(
        f"{_escape(key, blank=True)}={_escape(value, blank=False)}\n"
        for key, value in sorted(properties.items())
    )


def _escape(text: str, *, blank: bool) -> str:
    """`blank`: escape every blank (a key ends at one); otherwise the leading ones only."""
    escaped = (
        text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    for character in "=:#!":
        escaped = escaped.replace(character, "\\" + character)
    if blank:
        return escaped.replace(" ", "\\ ")
    stripped = escaped.lstrip(" ")
    return "\\ " * (len(escaped) - len(stripped)) + stripped
