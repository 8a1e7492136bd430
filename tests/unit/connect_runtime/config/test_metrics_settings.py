from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.config import worker_config
from connect_runtime.config.metrics_settings import MetricsListener, WorkerMetricsSettings

NEEDED = {
    "bootstrap.servers": "a:1",
    "key.converter": "K",
    "value.converter": "V",
    "offset.storage.file.filename": "f",
}


def read(**properties):
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return worker_config.parse_standalone_config({**NEEDED, **given}).metrics


def test_by_default_metrics_are_served_nowhere_and_windows_are_javas():
    assert read() == WorkerMetricsSettings(
        sampling=SampleWindows(window_s=30.0, windows=2), listener=None
    )
    assert read(prometheus_listener="").listener is None


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("http://:9404", "", 9404),
        ("http://0.0.0.0:0", "0.0.0.0", 0),
        ("http://connect-1.example:9404/", "connect-1.example", 9404),
        (" http://[::1]:9404 ", "::1", 9404),
    ],
)
def test_where_they_are_served(text, host, port):
    found = read(prometheus_listener=text).listener
    assert found == MetricsListener(host=host, port=port)


@pytest.mark.parametrize(
    "text", [":9404", "9404", "https://:9404", "http://:99999", "http://host", "http://:94/metrics"]
)
def test_what_is_no_listener_is_refused_with_the_form(text):
    with pytest.raises(ConfigError, match=r"prometheus\.listener.*http://host:port"):
        read(prometheus_listener=text)


def test_windows_may_be_others():
    found = read(metrics_sample_window_ms="5000", metrics_num_samples="4").sampling
    assert found == SampleWindows(window_s=5.0, windows=4)
    assert read(metrics_sample_window_ms="0").sampling.window_s == 0.001
