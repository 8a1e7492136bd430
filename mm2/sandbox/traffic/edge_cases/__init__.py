"""Edge-case topics: everything that a Kafka log can contain but ordinary traffic does not produce.

`edge_case_topics.write_topics` creates and fills the topics and verifies that each feature is in
the log. `record_features` and `batch_encoder` are written from the specification and share no code
with mm2, so that they cannot repeat the mistakes of mm2's code.

Used by tests only. This package may import `mm2.sandbox.traffic` and `mm2.sandbox`.
"""
