"""Topics that hold everything a Kafka log may hold and ordinary traffic does not show.

`edge_case_topics.write_topics` creates and fills them and verifies that each feature is in the
log. `log_features` and `batch_encoder` are written from the specification and share no code
with the product, so that a mistake in the product cannot hide itself.

Used by tests only. May import `mm2.sandbox.traffic` and `mm2.sandbox`.
"""
