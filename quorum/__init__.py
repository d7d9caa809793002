"""The metadata quorum: a Raft log of typed records, and the controller that decides on them.

`raft` is the engine, `metadata` the core (records, the image, decisions by subject). Around them:
`state_machine` and `active_controller`, which bring the two together; `metadata_feed`, `service`
and `client` over gRPC; `voter` and `server`, which run it all.
"""
