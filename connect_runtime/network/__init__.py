"""Non-blocking connections to Kafka clusters: sockets, TLS, DNS, request routing and metadata
refresh.

One thread owns a `Poller` and everything registered with it. Nothing blocks except host name
lookups, which run on separate threads. `ClusterConnections` is the entry point: it routes each
request to its broker over `BrokerConnection`, keeps the metadata fresh and reports the end of
every request exactly once. `ConnectionSettings` can be sent to executors.

May import `connect_runtime.base`, `.system` and `.protocol`. Starts no threads besides those of the
resolver, and does not use librdkafka.
"""
