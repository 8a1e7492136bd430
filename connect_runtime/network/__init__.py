"""Non-blocking connections to Kafka clusters: sockets, TLS, DNS, request routing and metadata
refresh.

One thread owns a `Poller` and everything registered with it. Nothing blocks except host name
lookups, which run on separate threads. `ClusterConnections` is the entry point: it routes each
request to its broker over `BrokerConnection`, keeps the metadata fresh and calls the callback of
every request exactly once. `ConnectionSettings` can be serialized and sent to Spark executors.

May import `connect_runtime.base`, `.system` and `.protocol`. Starts no threads besides those of the
resolver, and does not use librdkafka.
"""
