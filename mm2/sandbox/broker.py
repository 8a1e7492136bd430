"""One Kafka broker process, with its settings and its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mm2.sandbox import jvm, runners, server


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """What a broker needs to run. `settings` are complete; `folder` is its own.

    `serving` is what the log says once the broker is registered and accepts requests; `before`
    is called before each start.
    """

    node_id: int
    folder: Path
    runner: runners.Runner
    settings: Mapping[str, str]
    jvm: tuple[str, ...] = jvm.TEST_FLAGS
    serving: str = "Kafka Server started"
    before: Callable[[], None] = lambda: None


class Broker(server.Server):
    """A broker with its folder. Not thread-safe; it is down until `start`."""

    def __init__(self, spec: BrokerSpec) -> None:
        super().__init__(
            f"broker {spec.node_id}",
            spec.folder,
            log_name="broker.log",
            runner=spec.runner,
            started=lambda text: spec.serving in text,
        )
        self.node_id = spec.node_id
        self._spec = spec
        self._settings = dict(spec.settings)

    @property
    def properties_path(self) -> Path:
        return self.folder / "server.properties"

    @property
    def data(self) -> Path:
        """Where it keeps its logs and what was formatted; its settings name one folder."""
        return Path(self._settings["log.dirs"])

    def launch(self) -> None:
        """Start the process without waiting for it to serve."""
        if not self.running:
            self._spec.before()
        super().launch()

    def prepare(self) -> None:
        """Write the settings file into the folder."""
        server.write_settings(self.properties_path, self._settings)

    def command(self) -> list[str]:
        return self.runner.broker(self.properties_path, flags=self._spec.jvm)

    def change_settings(self, changes: Mapping[str, str | None]) -> None:
        """Other settings for the next start; None removes one."""
        merged = {**self._settings, **changes}
        self._settings = {key: value for key, value in merged.items() if value is not None}
