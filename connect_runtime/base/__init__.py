"""Basic types that every layer uses: ids, errors, time, metrics and limits. No I/O.

Main types: `TopicPartition` and `ConnectorTaskId` (`ids`), `RetriableError` and `FatalError`
(`errors`), `Clock` and `Deadline` (`timing`), `Backoff`, `MetricRegistry` (`metrics`).

Imports only the standard library.
"""
