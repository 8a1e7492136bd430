"""A Kafka Connect worker for connectors written in Python, and the underlying Kafka client code.

`protocol` encodes and decodes Kafka requests, and `network` sends them. `group` implements
membership in the worker group. `storage` manages the three Connect topics. `herder` manages
connectors and tasks across workers, and `worker` runs the ones that are assigned to this process.
`rest` serves the REST API. `plugins` contains the shipped converters and connectors, and `api` is
the interface that plugins import. `kafka` implements the interfaces of `storage` and `worker` with
librdkafka and with the connections of `network`. `app` builds the programs `connect-distributed`
and `connect-standalone`.

Import order, bottom to top: base < protocol, api, system < group, storage, plugins, network <
herder, config < rest, worker < kafka, metrics_server < app.
"""
