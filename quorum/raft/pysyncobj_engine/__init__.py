"""The Raft engine: pysyncobj, with everything replaced that loses data or trusts strangers.

Kept of pysyncobj 0.3.17: elections (with its no-op at the start of a term), the leader's
replication loop and batching, and the rule that a leader commits by counting only entries of its
own term. Replaced, here or in the modules beside this one, each because the stock version breaks
a promise (docs/decisions/0006 has the list, tests/quorum/raft/test_stock_bugs.py the proofs):

* the journal, and with it what is durable before a promise leaves (`journal`, `outbox`);
* the follower's side of replication: only a conflict truncates, and never what is committed;
* acknowledgements: they carry the term, and do not send the leader back;
* snapshots: no fork, checksums, flow control (`snapshots`, `transfers`);
* commands: opaque bytes, proposed to the leader only, with an outcome that is never guessed;
* messages: typed (`frames`), never pickled; any newer term makes a leader step down.

Added: pre-vote, leaders that resign, ReadIndex, and nodes in an order that no hash decides.

This is the only package that knows pysyncobj, and all private names of it that we touch are here:
`voter` is the subclass, `adapters` are our parts under its names, `pin` holds it to one version,
`engine` is what the rest of the quorum sees.
"""

from quorum.raft.pysyncobj_engine.engine import PysyncobjEngine
from quorum.raft.pysyncobj_engine.pin import simulated_time

__all__ = ["PysyncobjEngine", "simulated_time"]
