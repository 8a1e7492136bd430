"""Basic types that every layer uses: ids, errors, time, metrics and limits. No I/O.

Main types: `TopicPartition` and `ConnectorTaskId` (`ids`), `RetriableError` and `FatalError`
(`errors`), `Clock` and `Deadline` (`clock_and_deadline`), `Backoff`, `MetricRegistry` (`metrics`).

Imports only the standard library.
"""
