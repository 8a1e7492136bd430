"""Runs connectors and tasks in this process, each on its own thread.

`Worker` starts and stops connectors and tasks. `WorkerConnector` and `WorkerTask` own the threads
and follow the state machines `ConnectorLifecycle` and `TaskLifecycle`. `WorkerSourceTask`,
`WorkerSinkTask` and `WorkerPipelineTask` run the three kinds of tasks. The package also validates
connector configurations, handles offset requests and collects the worker's metrics.

A plugin may raise any exception or never return. Its failure affects only the status of its own
connector or task, never other plugins.

May import base, system, api, storage, group, plugins, config and herder. Kafka clients are used
through the protocols in `task_client_interfaces`.
"""
