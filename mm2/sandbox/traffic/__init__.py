"""Traffic from real Kafka clients, for the demo, the drill and the tests.

`traffic_mix.TrafficMix` sends every kind of batch that mm2 copies without re-encoding
(pass-through). `simulated_applications` contains a producer of numbered records, which stores the
numbers of acknowledged records, and a consumer group member, which stores the numbers of processed
records. `latency_probe` measures replication latency. Topics with unusual contents are in
`edge_cases`.

This package may import `mm2.sandbox`, but not `mm2.sandbox.scenarios`.
"""
