"""Small types that every layer uses: ids, errors, time, metrics, limits. Pure.

`TopicPartition` and `ConnectorTaskId` (`ids`), `RetriableError` and `FatalError` (`errors`),
`Clock` and `Deadline` (`timing`), `Backoff`, `MetricRegistry` (`metrics`).

Imports the standard library only.
"""
