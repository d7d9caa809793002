"""The broker: replicas, coordinators, and one module per Kafka API.

Nothing is here yet. To come: `replica/` (leader, follower, in-sync replicas, high watermark),
`coordinator/` (groups, offsets, transactions), `apis/`, the server and its lifecycle.
"""
