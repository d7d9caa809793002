"""The broker: replicas, coordinators, and one module per Kafka API.

`replica` is here: leader, follower, in-sync replicas and high watermark of a partition, as a core.
To come: `coordinator/` (groups, offsets, transactions), `apis/`, the server and its lifecycle.
"""
