"""Runs connectors and tasks in this process, each on its own thread.

`Worker` starts and stops them. `WorkerConnector` and `WorkerTask` own the threads and follow the
state machines `ConnectorLifecycle` and `TaskLifecycle`; `WorkerSourceTask`, `WorkerSinkTask` and
`WorkerPipelineTask` do the work of the three kinds of tasks. Validation of connector
configurations, offset requests and metrics of the worker are here as well.

A plugin may raise anything or never return: its failure ends in its own status and stops nothing
else.

May import base, system, api, storage, group, plugins, config and herder. Kafka clients are
used through the protocols in `task_client_interfaces`.
"""
