"""What stock pysyncobj 0.3.17 tells its clients, and what it lets strangers do.

As in `test_stock_bugs`: the harm is asserted of the stock library, and its absence of ours.
"""

import pickle
import socket
import struct
import zlib
from collections.abc import Iterator

import pytest
from pysyncobj.node import Node
from pysyncobj.poller import createPoller
from pysyncobj.tcp_connection import TcpConnection

from quorum.raft.frames import BadFrame, FrameReader, LeaderAlive
from tests.quorum.raft.clusters import A, B, C, Cluster, D, E, M
from tests.quorum.raft.lab import Lab, open_lab
from tests.quorum.raft.stock import BOOM


@pytest.fixture
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


# ------------------------------------------------------------------------ what clients are told


def client_raises(cluster: Cluster[M]) -> None:
    """A client's callback fails the first time that it is called."""

    def fail(_: str) -> None:
        if len(told) == 0:
            told.append(True)
            raise RuntimeError("a client's bug")

    told: list[bool] = []
    cluster.put(A, "once", told=fail)
    cluster.put(A, "next")
    cluster.step(1.0)
    assert told == [True]
    assert cluster.applied(B) == ["once", "next"]


def test_stock_a_callback_that_raises_has_its_command_applied_twice(lab: Lab) -> None:
    cluster = lab.stock(A, B, C)
    client_raises(cluster)
    assert cluster.applied(A) == ["once", "once", "next"]


def test_a_callback_that_raises_harms_nobody(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    client_raises(cluster)
    assert cluster.applied(A) == ["once", "next"]
    assert cluster.lives[A].failures == []


def command_raises(cluster: Cluster[M]) -> None:
    cluster.put(A, BOOM)
    cluster.put(A, "next")
    cluster.step(1.0)


def test_stock_a_command_that_raises_is_applied_for_ever(lab: Lab) -> None:
    cluster = lab.stock(A, B, C)
    command_raises(cluster)
    assert cluster.applied(A).count(BOOM) > 5
    assert "next" not in cluster.applied(A)
    assert not cluster.is_acknowledged("next")


def test_a_command_that_raises_is_applied_once_and_stops_the_voter(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    command_raises(cluster)
    assert cluster.applied(A) == [BOOM]
    assert [str(error) for error in cluster.lives[A].failures] == [BOOM]
    assert not cluster.is_acknowledged("next")


def follower_loses_its_leader(cluster: Cluster[M]) -> None:
    """A client asks a follower whose connection to the leader has just broken."""
    cluster.cut(A, B)
    cluster.put(B, "forwarded")
    cluster.tick(B)
    cluster.connect(A, B)
    cluster.step(20.0)
    assert "forwarded" not in cluster.applied(A)


def test_stock_a_forwarded_command_is_dropped_and_nobody_told(lab: Lab) -> None:
    cluster = lab.stock(A, B, C)
    follower_loses_its_leader(cluster)
    assert "forwarded" not in cluster.outcomes


def test_a_follower_refuses_at_once(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    follower_loses_its_leader(cluster)
    assert cluster.outcomes["forwarded"] == "failed: not leader"


def leader_lost_while_writing(cluster: Cluster[M]) -> None:
    """A client asks a follower; the leader dies once a third voter has the entry, if there is."""
    cluster.put(B, "retried")
    cluster.tick(B)
    cluster.deliver(B, A)
    for _ in range(3):
        cluster.clock.now_s += 0.15
        cluster.tick(A)
    cluster.deliver(A, C)
    cluster.isolate(A)
    cluster.elect(C, (B, C))
    cluster.step(1.0, (B, C))


def test_stock_a_command_that_failed_was_committed(lab: Lab) -> None:
    cluster = lab.stock(A, B, C)
    leader_lost_while_writing(cluster)
    assert cluster.outcomes["retried"].startswith("failed")
    assert cluster.applied(B) == cluster.applied(C) == ["retried"]


def test_a_command_that_failed_was_never_in_a_log(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    leader_lost_while_writing(cluster)
    assert cluster.outcomes["retried"] == "failed: not leader"
    assert cluster.applied(B) == cluster.applied(C) == []


def test_a_leader_deposed_while_writing_tells_what_became_of_it(lab: Lab) -> None:
    """Not when it is deposed, but when it is known."""
    cluster = lab.ours(A, B, C)
    cluster.put(A, "kept")
    cluster.tick(A)
    cluster.deliver(A, C)
    cluster.isolate(A)
    cluster.put(A, "overwritten")
    cluster.tick(A)
    cluster.elect(C, (B, C))
    cluster.step(1.0)
    assert not {"kept", "overwritten"} & cluster.outcomes.keys()
    cluster.rejoin(A)
    cluster.step(2.0)
    assert cluster.is_acknowledged("kept")
    assert cluster.outcomes["overwritten"] == "failed: discarded"
    assert [cluster.applied(node) for node in (A, B, C)] == [["kept"]] * 3


# --------------------------------------------------------------------------------- strangers

_ran: list[str] = []


def _run(what: str) -> None:
    _ran.append(what)


class Exploit:
    """Unpickling it calls a function of the sender's choice."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _run, ("somebody else's code",)


def exploit_bytes() -> bytes:
    body = zlib.compress(pickle.dumps(Exploit()))
    return struct.pack("i", len(body)) + body


def test_stock_runs_code_of_whoever_connects() -> None:
    _ran.clear()
    server, client = socket.socketpair()
    with client:
        server.setblocking(False)
        poller = createPoller("poll")
        connection = TcpConnection(poller, onMessageReceived=lambda _: None, socket=server)
        client.sendall(exploit_bytes())
        poller.poll(1.0)
        connection.disconnect()
    assert _ran == ["somebody else's code"]


def bodies_of(data: bytes) -> list[bytes]:
    try:
        return list(FrameReader().feed(data))
    except BadFrame:
        return []


def test_no_code_of_a_stranger_runs(lab: Lab) -> None:
    _ran.clear()
    engine = lab.ours(A, B, C).lives[A].engine
    for data in (exploit_bytes(), pickle.dumps(Exploit()), zlib.compress(pickle.dumps(Exploit()))):
        for body in [data, *bodies_of(data)]:
            with pytest.raises(BadFrame):
                engine.received(B, body)
    assert _ran == []
    assert engine.leadership.is_active


def test_a_command_that_is_a_pickle_stays_bytes(lab: Lab) -> None:
    """Stock pysyncobj unpickles commands, membership changes and versions from its log."""
    _ran.clear()
    cluster = lab.ours(A, B, C)
    for kind in range(4):
        command = bytes([kind]) + pickle.dumps(Exploit(), 0)
        cluster.lives[A].engine.propose(command, lambda _: None)
    cluster.step(0.5)
    assert len(cluster.applied(C)) == 4
    assert _ran == []


# -------------------------------------------------------------------------------- membership


def test_stock_two_membership_changes_at_once_split_the_brain(lab: Lab) -> None:
    cluster = lab.stock(A, B, C, dynamicMembershipChange=True)
    cluster.ids = (A, B, C, D, E)
    for node in (D, E):
        cluster.start(node, cluster.ids)
    cluster.cut(A, B)
    cluster.cut(A, C)
    for node in (D, E):
        cluster.nodes[A].addNodeToCluster(Node(node))
    cluster.tick(A)
    for pair in ((A, D), (A, E), (D, E)):
        cluster.connect(*pair)
    cluster.step(0.5, (A, D, E))
    cluster.put(A, "left")
    cluster.step(3.0)
    (leader,) = (node for node in (B, C) if cluster.leads(node))
    cluster.put(leader, "right")
    cluster.step(1.0)
    assert cluster.is_acknowledged("left")
    assert cluster.is_acknowledged("right")
    assert cluster.applied(A) == ["left"]
    assert cluster.applied(leader) == ["right"]


def test_nobody_can_change_the_voters(lab: Lab) -> None:
    cluster = lab.ours(A, B, C)
    engine, inner = cluster.lives[A].engine, cluster.lives[A].inner
    assert not [name for name in dir(engine) if "node" in name.lower() or "member" in name.lower()]
    with pytest.raises(Exception, match="dynamicMembershipChange is disabled"):
        inner.addNodeToCluster(Node(D))
    with pytest.raises(BadFrame, match="4 is not a voter"):
        cluster.say(D, A, LeaderAlive(term=9, commit_index=0))
    change = b"\2" + pickle.dumps(["add", D, Node(D)])
    engine.propose(change[1:], lambda _: None)
    engine.propose(change, lambda _: None)
    cluster.isolate(B)
    cluster.isolate(C)
    cluster.put(A, "alone")
    cluster.step(2.0, (A,))
    assert not cluster.is_acknowledged("alone")
