"""Strangers, broken disks and wrong settings: the voter says what is wrong, and loses nothing.

Tests that are expected to fail name a weakness that is known and not repaired yet.
"""

import asyncio
import itertools
import json
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc
import grpc.aio
import pytest

from floodmark.tls_authority import Authority
from log.filesystem import OsFileSystem
from quorum.api import quorum_pb2 as pb
from quorum.client import QuorumClient
from quorum.errors import OutcomeUnknownError, QuorumError
from quorum.raft import journal
from quorum.storage import format_storage
from tests.quorum.service.voters import Cluster, join, new_topic, on_loop, request_id

CLUSTER_ID = "test-cluster"
PATIENCE_S = 60.0
REFUSAL_S = 5.0
LIMITED = """
import resource, sys
from quorum.__main__ import main
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
sys.exit(main(sys.argv[2:]))
"""
"""Runs a voter whose files cannot grow beyond a size: a disk that is full, without a disk."""
LOOPBACK = "127.0.0.1"

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HTTP2_SETTINGS = bytes.fromhex("000000040000000000")
HTTP2_PING = bytes.fromhex("000008060000000000") + b"floodmrk"
HTTP2_GOAWAY = 7

GARBAGE = {
    "zeros": b"\0" * 5000,
    "ones": b"\xff" * 5000,
    "http1": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "http2": HTTP2_PREFACE + b"\xff" * 100,
    "tls": bytes.fromhex("16030102000100"),
    "huge frame": struct.pack("<I", 2**32 - 1) + b"x" * 100,
    "empty frames": struct.pack("<I", 0) * 100,
}


# --------------------------------------------------------------------------- requests


@on_loop
async def test_change_of_an_isr_with_any_wrong_epoch_changes_nothing() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        epochs = await join(client, 1, 2)
        topic = (await client.create_topics(new_topic("t", replicas=2))).topics[0]
        before = cluster.voters[1].machine.image
        found = before.topic("t")
        assert found is not None
        partition = found.partitions[0]
        leader = partition.leader
        assert leader is not None
        follower = 3 - leader
        member = pb.AlterPartitionRequest.IsrMember
        alone = [member(broker_id=leader, broker_epoch=epochs[leader])]
        wrong: list[tuple[dict[str, object], str]] = [
            ({"leader_epoch": partition.leader_epoch - 1}, "FENCED_LEADER_EPOCH"),
            ({"leader_epoch": partition.leader_epoch + 1}, "NOT_CONTROLLER"),
            ({"partition_epoch": partition.partition_epoch - 1}, "INVALID_UPDATE_VERSION"),
            ({"partition": -1}, "UNKNOWN_TOPIC_OR_PARTITION"),
            ({"topic_id": bytes(15) + b"x"}, "UNKNOWN_TOPIC_ID"),
            ({"isr": []}, "INVALID_REQUEST"),
            ({"isr": alone * 2}, "INVALID_REQUEST"),
            ({"isr": [*alone, member(broker_id=99, broker_epoch=1)]}, "INVALID_REQUEST"),
            (
                {"isr": [*alone, member(broker_id=follower, broker_epoch=epochs[follower] - 1)]},
                "INELIGIBLE_REPLICA",
            ),
        ]
        for change, name in wrong:
            right = {
                "topic_id": topic.topic_id,
                "partition": 0,
                "leader_epoch": partition.leader_epoch,
                "partition_epoch": partition.partition_epoch,
                "isr": alone,
            }
            request = pb.AlterPartitionRequest(broker_id=leader, broker_epoch=epochs[leader])
            request.partitions.add(**(right | change))
            answer = await client.alter_partition(request)
            assert answer.partitions[0].error.name == name, change
        assert cluster.voters[1].machine.image.topic("t") == found


@on_loop
async def test_abandoned_calls_leave_the_voter_working() -> None:
    async with Cluster(1) as cluster, cluster.client() as client:
        await join(client, 1)
        stub = cluster.controller_stub(1)

        def request(number: int) -> pb.CreateTopicsRequest:
            made = new_topic(f"t{number}")
            made.request_id = request_id()
            return made

        calls = [stub.CreateTopics(request(i)) for i in range(100)]
        for call in calls:
            call.cancel()
        late = [stub.CreateTopics(request(100 + i), timeout=0.001) for i in range(100)]
        await asyncio.gather(*calls, *late, return_exceptions=True)
        answer = await client.create_topics(new_topic("after"))
        assert not answer.topics[0].HasField("error")


@on_loop
async def test_client_asks_others_if_a_voter_that_does_not_lead_names_itself() -> None:
    # As voters on one host do that were not told each other's gRPC ports.
    async with Cluster(3) as cluster:
        addresses = [cluster.addresses[2], cluster.addresses[1]]
        cluster.addresses[1] = cluster.addresses[2]
        async with QuorumClient(addresses, timeout_s=3) as client:
            assert 1 in await join(client, 1)


# ------------------------------------------------------------------------- the process


class Node:
    """A cluster of one real process."""

    def __init__(self, folder: Path, **properties: str) -> None:
        self.folder = folder
        self.directory = folder / "metadata"
        self.file = folder / "quorum.properties"
        self.errors = folder / "stderr"
        self.raft, self.grpc, self.http = _free_ports(3)
        self.properties = {
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self.raft}",
            "metadata.log.dir": str(self.directory),
            "listeners": f"CONTROLLER://{LOOPBACK}:{self.grpc},HTTP://{LOOPBACK}:{self.http}",
            "broker.session.timeout.ms": "60000",
            **properties,
        }
        format_storage(
            OsFileSystem(),
            str(self.directory),
            node_id=1,
            cluster_id=CLUSTER_ID,
            create_journal=journal.create,
        )

    @contextmanager
    def running(self, most_file_bytes: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
        process = self._start(most_file_bytes)
        try:
            self._wait_until_ready(process)
            yield process
        finally:
            process.kill()
            process.wait()

    def refused(self) -> str:
        """The last words of a start that must fail for a reason that the user can repair."""
        process = self._start()
        try:
            code = process.wait(REFUSAL_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            process.kill()
            process.wait()
        assert code == 3, self.said()
        assert "Traceback" not in self.said()
        return self.said().splitlines()[-1]

    def said(self) -> str:
        return self.errors.read_text(errors="replace")

    def journals(self) -> list[Path]:
        return sorted(self.directory.glob("*.journal"))

    def create(self, names: Iterator[str], count: int, *, broker_id: int) -> list[str]:
        """Creates topics until one fails; those that were acknowledged, or existed already."""

        async def run() -> list[str]:
            done: list[str] = []
            async with QuorumClient([f"{LOOPBACK}:{self.grpc}"], timeout_s=5) as client:
                await join(client, broker_id)
                for name in itertools.islice(names, count):
                    try:
                        answer = await client.create_topics(new_topic(name, partitions=50))
                    except (QuorumError, OutcomeUnknownError):
                        break
                    assert answer.topics[0].error.name in ("", "TOPIC_ALREADY_EXISTS")
                    done.append(f"{name} {answer.topics[0].error.name}".strip())
            return done

        return asyncio.run(run())

    def _start(self, most_file_bytes: int | None = None) -> subprocess.Popen[bytes]:
        lines = (f"{key}={value}\n" for key, value in self.properties.items())
        self.file.write_text("".join(lines))

        command = [sys.executable, "-m", "quorum"]
        if most_file_bytes is not None:
            command = [sys.executable, "-c", LIMITED, str(most_file_bytes)]
        with self.errors.open("wb") as errors:
            return subprocess.Popen([*command, str(self.file)], stderr=errors)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            assert process.poll() is None, self.said()
            try:
                with opener.open(f"http://{LOOPBACK}:{self.http}/ready", timeout=10) as answer:
                    if json.load(answer)["status"] == "ready":
                        return
            except OSError:
                time.sleep(0.02)
        raise AssertionError(self.said())


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


def _topics() -> Iterator[str]:
    return (f"t{number}" for number in itertools.count())


@pytest.mark.live
def test_garbage_and_idle_strangers_on_every_port_harm_nobody(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running() as process:
        strangers = []
        for port in (node.raft, node.grpc, node.http):
            for data in (*GARBAGE.values(), *[b""] * 50):
                stranger = socket.create_connection((LOOPBACK, port), timeout=10)
                strangers.append(stranger)
                try:
                    stranger.sendall(data)
                except ConnectionError:
                    pass  # it hung up, as it may
        assert len(node.create(_topics(), 3, broker_id=1)) == 3
        for stranger in strangers:
            stranger.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert "Traceback" not in node.said()


def _full(node: Node) -> list[str]:
    """Writes until the disk takes no more; what was acknowledged."""
    with node.running(most_file_bytes=64 << 10) as process:
        done = node.create(_topics(), 1000, broker_id=1)
        assert process.wait(PATIENCE_S) == 3
    return done


@pytest.mark.live
def test_voter_stops_on_a_full_disk_and_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    node = Node(tmp_path)
    done = _full(node)
    assert done
    assert node.said().splitlines()[-1].startswith("floodmark-quorum: ")
    with node.running():
        again = node.create(_topics(), len(done), broker_id=2)
    assert again == [f"{name} TOPIC_ALREADY_EXISTS" for name in done]


@pytest.mark.live
def test_full_disk_is_told_with_its_path_and_without_a_traceback(tmp_path: Path) -> None:
    node = Node(tmp_path)
    _full(node)
    assert "Traceback" not in node.said()
    assert str(node.directory) in node.said().splitlines()[-1]


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def _flip_middle(node: Node) -> None:
    (last,) = node.journals()
    _flip(last, last.stat().st_size // 2)


def _lose_journals(node: Node) -> None:
    for path in node.journals():
        path.unlink()


def _lose_snapshots(node: Node) -> None:
    for path in node.directory.glob("*.checkpoint"):
        path.unlink()


@pytest.mark.live
@pytest.mark.parametrize(
    ("damage", "entries_between_snapshots"),
    [(_flip_middle, 100_000), (_lose_journals, 100_000), (_lose_snapshots, 10)],
)
def test_damaged_disk_is_refused_and_the_way_out_is_named(
    tmp_path: Path, damage: Callable[[Node], None], entries_between_snapshots: int
) -> None:
    key = "metadata.log.max.entries.between.snapshots"
    node = Node(tmp_path, **{key: str(entries_between_snapshots)})
    with node.running() as process:
        assert len(node.create(_topics(), 40, broker_id=1)) == 40
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    damage(node)
    words = node.refused()
    assert str(node.directory) in words
    assert "floodmark quorum recover" in words


def test_stray_file_beside_the_journal_is_no_internal_error(tmp_path: Path) -> None:
    (tmp_path / "copy-of-0.journal").write_bytes(b"x")
    assert not journal.exists(OsFileSystem(), str(tmp_path))


# ---------------------------------------------------------------------------- settings


@pytest.mark.live
def test_voter_refuses_other_voters_than_its_log_was_made_by(tmp_path: Path) -> None:
    """Were one of three started as if it were alone, both it and the other two would lead."""
    node = Node(tmp_path)
    alone = node.properties["controller.quorum.voters"]
    with node.running():
        pass
    others = ",".join(f"{i}@{LOOPBACK}:{port}" for i, port in enumerate(_free_ports(2), 2))
    node.properties["controller.quorum.voters"] = f"{alone},{others}"
    assert "controller.quorum.voters" in node.refused()


@pytest.mark.live
def test_certificate_of_another_node_is_refused_at_the_start(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = Authority.create("test", now=now, days=1)
    pair = authority.issue("quorum-2", [LOOPBACK], now=now, days=1)
    files = {
        "ssl.certificate.location": ("node.crt", pair.certificate),
        "ssl.key.location": ("node.key", pair.key),
        "ssl.ca.location": ("ca.crt", authority.pair.certificate),
    }
    for name, data in files.values():
        (tmp_path / name).write_bytes(data)
    node = Node(tmp_path, **{key: str(tmp_path / name) for key, (name, _) in files.items()})
    assert "quorum-2" in node.refused()


# ------------------------------------------------------------------------------- gRPC


@pytest.mark.live
@on_loop
async def test_pings_as_often_as_our_client_sends_them_are_welcome() -> None:
    """A quiet metadata stream would be cut off with every third ping."""
    async with Cluster(1) as cluster:
        host, _, port = cluster.addresses[1].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(HTTP2_PREFACE + HTTP2_SETTINGS)
        kinds: Counter[int] = Counter()

        async def read() -> None:
            while head := await reader.readexactly(9):
                kinds[head[3]] += 1
                await reader.readexactly(int.from_bytes(head[:3]))

        reading = asyncio.create_task(read())
        for _ in range(4):
            writer.write(HTTP2_PING)
            # Real time is what this is about: the server allows one ping per second.
            await asyncio.wait([reading], timeout=1.1)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        writer.close()
        assert not kinds[HTTP2_GOAWAY]


@pytest.mark.live
def test_every_call_of_a_flood_is_answered_or_refused_with_a_reason(tmp_path: Path) -> None:
    async def flood() -> Counter[grpc.StatusCode]:
        async with QuorumClient([f"{LOOPBACK}:{node.grpc}"]) as client:
            await join(client, 1)
        async with grpc.aio.insecure_channel(f"{LOOPBACK}:{node.grpc}") as channel:
            call = channel.unary_unary(
                "/floodmark.quorum.v1.ControllerService/Heartbeat",
                request_serializer=pb.HeartbeatRequest.SerializeToString,
                response_deserializer=pb.HeartbeatResponse.FromString,
            )
            request = pb.HeartbeatRequest(broker_id=99)
            calls = [call(request, timeout=PATIENCE_S) for _ in range(10_000)]
            return Counter(await asyncio.gather(*[made.code() for made in calls]))

    node = Node(tmp_path)
    with node.running():
        codes = asyncio.run(flood())
    allowed = {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert set(codes) <= allowed, codes
