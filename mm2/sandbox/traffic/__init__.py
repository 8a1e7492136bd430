"""Traffic from real Kafka clients, for the demo, the drill and the tests.

`traffic_mix.TrafficMix` sends every kind of batch that mm2 copies without re-encoding
(pass-through). `simulated_applications` contains a producer of numbered records and a consumer
group member, both of which store which records they have processed. `latency_probe` measures
replication latency. Topics with unusual contents are in `edge_cases`.

May import `mm2.sandbox`, but not `mm2.sandbox.scenarios`.
"""
