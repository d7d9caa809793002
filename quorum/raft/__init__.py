"""The Raft engine behind a port: a replicated log of opaque commands, and who leads it."""
