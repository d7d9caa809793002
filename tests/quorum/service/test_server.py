"""The process `floodmark-quorum`: real engine, real disk, real signals."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from log.filesystem import OsFileSystem
from quorum.client import QuorumClient
from quorum.raft import journal
from quorum.storage import format_storage
from tests.quorum.service.voters import join, new_topic

PATIENCE_S = 60.0
CLUSTER_ID = "test-cluster"


def free_ports(count: int) -> list[int]:
    """Ports that nobody had a moment ago: a voter must know the others' before they start."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


class Node:
    def __init__(self, folder: Path, **properties: str) -> None:
        self.raft, self.grpc, self.http = free_ports(3)
        self.directory = folder / "metadata"
        self.file = folder / "quorum.properties"
        lines = {
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.raft}",
            "metadata.log.dir": str(self.directory),
            "listeners": f"CONTROLLER://127.0.0.1:{self.grpc},HTTP://127.0.0.1:{self.http}",
            "logging.format": "json",
            **properties,
        }
        self.file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def format(self) -> None:
        format_storage(
            OsFileSystem(),
            str(self.directory),
            node_id=1,
            cluster_id=CLUSTER_ID,
            create_journal=journal.create,
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "quorum", str(self.file)]

    def run(self) -> subprocess.CompletedProcess[str]:
        """For a start that must fail."""
        return subprocess.run(
            self.command(), capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(self.command(), stderr=subprocess.PIPE, text=True)
        try:
            self.wait_until_ready(process)
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()
            try:
                if json.loads(self.get("/ready"))["status"] == "ready":
                    return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("it does not become ready")

    def get(self, path: str) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.http}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def create(self, *names: str, broker_id: int = 1) -> list[str]:
        """Creates topics and returns the errors. The broker must be a new one each time: the old
        one's session is not over."""

        async def run() -> list[str]:
            async with QuorumClient([f"127.0.0.1:{self.grpc}"]) as client:
                await join(client, broker_id)
                answers = [await client.create_topics(new_topic(name)) for name in names]
                return [answer.topics[0].error.name for answer in answers]

        return asyncio.run(run())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("floodmark-quorum: ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in last


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_voter_stops_cleanly_and_resumes_with_everything(node: Node, number: int) -> None:
    node.format()
    with node.running() as process:
        assert node.create("a", "b") == ["", ""]
        os.kill(process.pid, number)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        events = [json.loads(line) for line in errors.splitlines()]
        assert events[-1]["message"] == "stopped"
        assert {event["node"] for event in events} == {"quorum-1"}
        assert not [event for event in events if event["level"] in ("WARNING", "ERROR")]
    with node.running():
        assert node.create("a", "c", broker_id=2) == ["TOPIC_ALREADY_EXISTS", ""]


@pytest.mark.live
def test_voter_that_was_killed_resumes_with_everything(node: Node) -> None:
    node.format()
    with node.running() as process:
        assert node.create("a") == [""]
        process.kill()
        process.wait()
    with node.running():
        assert node.create("a", broker_id=2) == ["TOPIC_ALREADY_EXISTS"]


@pytest.mark.live
def test_metrics_have_kafkas_names(node: Node) -> None:
    node.format()
    with node.running():
        node.create("a")
        page = node.get("/metrics")
        lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if line[0] != "#")
        controller, raft = "kafka_controller_kafkacontroller_", "kafka_server_raftmetrics_"
        assert lines[f"{controller}activecontrollercount"] == "1.0"
        assert lines[f"{controller}activebrokercount"] == "1.0"
        assert lines[f"{controller}fencedbrokercount"] == "0.0"
        assert lines[f"{controller}globaltopiccount"] == "1.0"
        assert lines[f"{controller}globalpartitioncount"] == "1.0"
        assert lines[f"{controller}offlinepartitionscount"] == "0.0"
        assert float(lines[f"{controller}lastappliedrecordoffset"]) > 0
        assert lines[f"{raft}current_leader"] == "1.0"
        assert float(lines[f"{raft}current_epoch"]) >= 1
        assert float(lines[f"{raft}high_watermark"]) > 0
        assert lines[raft + 'current_state{state="leader"}'] == "1.0"
        assert float(lines[f"{raft}commit_latency_avg"]) >= 0
        assert float(lines[f"{raft}election_latency_max"]) >= 0
        assert lines["floodmark_metrics_read_errors_total"] == "0.0"


@pytest.mark.live
def test_start_on_an_unformatted_disk_is_refused(node: Node) -> None:
    node.directory.mkdir()
    assert_one_line(node.run(), "not formatted")


@pytest.mark.live
def test_start_on_a_taken_port_is_refused(node: Node) -> None:
    node.format()
    with socket.create_server(("127.0.0.1", node.grpc)):
        assert_one_line(node.run(), str(node.grpc))


@pytest.mark.live
def test_second_process_on_the_same_disk_is_refused(node: Node) -> None:
    node.format()
    with node.running():
        assert_one_line(node.run(), "in use")


@pytest.mark.live
def test_unknown_property_names_the_nearest_known_one(tmp_path: Path) -> None:
    node = Node(tmp_path, **{"controller.quorum.voter": "1"})
    assert_one_line(node.run(), "controller.quorum.voters")
