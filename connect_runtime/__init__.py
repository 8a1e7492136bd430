"""A Kafka Connect worker for connectors written in Python, and the Kafka client code under it.

`protocol` encodes and decodes Kafka requests, `network` sends them, `group` is a member of the
worker group, `storage` keeps the three Connect topics, `herder` decides what runs where, `worker`
runs connectors and tasks, `rest` serves the REST API, `plugins` are the shipped converters and
connectors, `api` is what a plugin imports. `kafka` implements the worker's interfaces with
librdkafka and with our own connections, `app` builds `connect-distributed` and
`connect-standalone`.

Import order, bottom to top: base < protocol, api, system < group, storage, plugins, network
< herder, config < rest, worker < kafka, metrics_server < app.
"""
