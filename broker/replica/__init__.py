"""Replication of one partition, without IO: leader, follower, ISR and high watermark.

`Partition` is what a driver holds, one for each replica on its broker:

    effects = partition.step(event, now_ms)

- `events` says what may happen, `effects` what the driver has to do, in this order. `now_ms` and
  all deadlines are on one monotonic clock. `deadline_ms()` says when to `step(Tick(), now_ms)`;
  it changes with every step.
- Two ports are called from inside a step: the log (`ports.ReplicaLog`, which `log.PartitionLog`
  is), and the broker's lease (`ports.Lease`), which reads its clock when it is called. Nothing else
  changes this log's end, epochs or high watermark; retention, compaction and flushes are the
  driver's.
- `RequestFlush`: take a ticket from the log, run it elsewhere, complete it, then `FlushCompleted`.
  With `log.flush.mode` os: `write_staged`, then `FlushCompleted`.
- `FetchFromLeader`: put the partition into the next fetch to that leader, with the broker's own
  epoch; bring `FetchAnswered` or `FetchFailed`. It may wait at the leader.
- `ProposeIsr`: AlterPartition, with the broker's own epoch. An answer that was not committed is
  `IsrUnknown`, however it looks.
- `MetadataChanged`: from every metadata image in which the partition, or the registration of one
  of its replicas, differs from the one before; in order; the first one an image that holds this
  broker's own registration.
- `Read` with a deadline waits for the first batch. A fetch over several partitions waits in each,
  and on the first answer cancels the others (`CancelRead`) and reads them without a deadline.
- `ReadLatest` gives high watermark and last stable offset; look-ups by timestamp take them as
  their end.

Each of the replication rules of the design is named where it is kept: 1, 14 and 16 in `partition`,
2, 5, 6 and 9 in `leader`, 3 and 15 in `leader_reads`, 4 in `produces`, 7 in `follower` and
`divergence`, 10 and 11 in `isr`, 18 in `lease`. 8, 12, 13 and 17 are the controller's.
"""

from broker.replica.lease import BrokerLease
from broker.replica.partition import Partition
from broker.replica.ports import Lease, ReplicaLog
from broker.replica.settings import ReplicaSettings

__all__ = ["BrokerLease", "Lease", "Partition", "ReplicaLog", "ReplicaSettings"]
