"""Stock pysyncobj, driven by hand: nothing of it is changed but its clock, chance and transport."""

import pickle
from collections.abc import Iterable
from typing import Any

import pysyncobj.syncobj as stock
from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from tests.quorum.raft.clusters import ACKNOWLEDGED, Clock, Cluster, Told

BOOM = "boom"
"""A key that the state machine cannot apply."""
Message = dict[str, Any]


class _Transport(Transport):  # type: ignore[misc]
    """Carries copies, as a wire would."""

    cluster: "StockCluster"

    def __init__(self, node: SyncObj, me: Node, others: list[Node]) -> None:
        super().__init__(node, me, others)
        self._id = me.id

    def send(self, node: Node, message: Message) -> bool:
        self.cluster.send(self._id, node.id, pickle.loads(pickle.dumps(message)))
        return True


class StockNode(SyncObj):  # type: ignore[misc]
    """A replicated list of keys."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.keys: list[str] = []

    @stock.replicated  # type: ignore[untyped-decorator]
    def add(self, key: str, padding: str) -> None:
        self.keys.append(key)
        if key == BOOM:
            raise ValueError(key)


def configuration(**settings: Any) -> SyncObjConf:
    defaults = {"logCompactionMinEntries": 10**9, "logCompactionMinTime": 10**9}
    return SyncObjConf(**{"autoTick": False, "useFork": False, **defaults, **settings})


class StockCluster(Cluster[Message]):
    """Nodes of stock pysyncobj in memory, with its default settings."""

    def __init__(self, clock: Clock, ids: Iterable[int], **settings: Any) -> None:
        super().__init__(clock, ids)
        self.failures: list[Exception] = []
        self.nodes: dict[int, Any] = {}
        self._settings = settings
        for node in self.ids:
            self.start(node, self.ids)

    def start(self, node: int, voters: Iterable[int]) -> None:
        transport = type("BoundTransport", (_Transport,), {"cluster": self})
        self.nodes[node] = StockNode(
            Node(node),
            [Node(other) for other in voters if other != node],
            conf=configuration(**self._settings),
            nodeClass=Node,
            transportClass=transport,
        )

    def tick(self, node: int) -> None:
        try:
            self.nodes[node].doTick(0)
        except Exception as error:  # noqa: BLE001
            # pysyncobj's own thread logs it and goes on with the next tick.
            self.failures.append(error)

    def put(self, node: int, key: str, *, size_bytes: int = 1, told: Told | None = None) -> None:
        tell = self.note(key, told)

        def done(_: object, reason: int) -> None:
            tell(ACKNOWLEDGED if reason == FAIL_REASON.SUCCESS else f"failed: {reason}")

        self.nodes[node].add(key, "x" * size_bytes, callback=done)

    def applied(self, node: int) -> list[str]:
        return list(self.nodes[node].keys)

    def leads(self, node: int) -> bool:
        return bool(self.nodes[node]._isLeader())

    def last_index(self, node: int) -> int:
        return int(self.log_of(node)[-1][1])

    def log_of(self, node: int) -> Any:
        return self.nodes[node]._SyncObj__raftLog

    def elect(self, node: int, group: Iterable[int]) -> None:
        self.nodes[node]._SyncObj__raftElectionDeadline = 0
        self.tick(node)
        self.deliver_all()
        assert self.leads(node)

    def compact(self, node: int) -> None:
        self.nodes[node].forceLogCompaction()

    def _receive(self, sender: int, receiver: int, message: Message) -> None:
        self._transport_of(receiver)._onMessageReceived(Node(sender), message)

    def _told_connected(self, node: int, other: int, connected: bool) -> None:
        transport = self._transport_of(node)
        if connected:
            transport._onNodeConnected(Node(other))
        else:
            transport._onNodeDisconnected(Node(other))

    def _transport_of(self, node: int) -> Any:
        return self.nodes[node]._SyncObj__transport
