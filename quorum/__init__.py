"""The metadata quorum: a Raft log of typed records, and the controller that decides on them.

Nothing is here yet. To come: `raft/` (the hardened engine), `metadata/` (records, image and
decisions, by subject), the controller, its gRPC server and client.
"""
