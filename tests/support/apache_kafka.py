"""A real Apache Kafka: one node, in KRaft mode, from the jars that Maven resolves."""

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from kafka_wire.messages.metadata import MetadataRequest, MetadataResponse
from kafka_wire.protocol import decode_response
from tests.support.external import require_program
from tests.support.maven import KAFKA, SLF4J, classpath, join
from tests.support.raw_client import RawClient

HOST = "127.0.0.1"
NODE_ID = 1
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
_POLL_S = 0.05
_METADATA_VERSION = 12
_CLUSTER_ID = "Zmxvb2RtYXJrLXRlc3RzMQ"  # a uuid; one that began with a dash would be an option
_LOG_TAIL_CHARACTERS = 4000

# A small and quick-starting JVM: tests live for seconds.
_JVM = (
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


@dataclass(frozen=True, kw_only=True)
class ApacheKafka:
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def connect(self) -> RawClient:
        return RawClient(self.host, self.port)


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One for the whole run, so it is for live tests, which run in one process."""
    with running(tmp_path_factory.mktemp("apache-kafka")) as kafka:
        yield kafka


@contextlib.contextmanager
def running(directory: Path) -> Iterator[ApacheKafka]:
    """Format a storage in `directory`, start the node, wait until it answers, and stop it after.

    Skips the test where there is no Java or no Maven.
    """
    jars = classpath(f"org.apache.kafka:kafka_2.13:{KAFKA}", f"org.slf4j:slf4j-simple:{SLF4J}")
    java = [str(require_program("java")), *_JVM, "-cp", join(jars)]
    port, controller_port = _free_ports()
    properties = directory / "server.properties"
    properties.write_text(_properties(directory / "data", port, controller_port))
    log_file = directory / "kafka.log"
    with log_file.open("wb") as log:
        _format(java, properties, log)
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)], stdout=log, stderr=subprocess.STDOUT
        )
        try:
            kafka = ApacheKafka(host=HOST, port=port)
            _wait_until_it_answers(kafka, process, log_file)
            yield kafka
        finally:
            _stop(process)


def _properties(data: Path, port: int, controller_port: int) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": NODE_ID,
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "unstable.api.versions.enable": "true",  # so that it answers every version that it has
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _format(java: list[str], properties: Path, log: IO[bytes]) -> None:
    arguments = ["format", "--cluster-id", _CLUSTER_ID, "--config", str(properties)]
    done = subprocess.run(
        [*java, "kafka.tools.StorageTool", *arguments],
        stdout=log,
        stderr=subprocess.STDOUT,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the storage tool ended with {done.returncode}:\n{_tail(log.name)}")


def _wait_until_it_answers(
    kafka: ApacheKafka, process: subprocess.Popen[bytes], log_file: Path
) -> None:
    """A broker that is registered and unfenced names itself in its metadata."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _is_ready(kafka):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Apache Kafka did not start:\n{_tail(log_file)}")
        time.sleep(_POLL_S)


def _is_ready(kafka: ApacheKafka) -> bool:
    try:
        with kafka.connect() as client:
            answer = client.exchange(MetadataRequest(topics=[]), _METADATA_VERSION)
    except OSError:
        return False
    _, response = decode_response(
        answer, api_key=MetadataRequest.api_key, api_version=_METADATA_VERSION
    )
    assert isinstance(response, MetadataResponse)
    return any(broker.node_id == NODE_ID for broker in response.brokers)


def _tail(log_file: Path | str) -> str:
    return Path(log_file).read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports() -> tuple[int, int]:
    """Two ports that were free a moment ago."""
    with socket.socket() as first, socket.socket() as second:
        for listener in (first, second):
            listener.bind((HOST, 0))
        return first.getsockname()[1], second.getsockname()[1]
