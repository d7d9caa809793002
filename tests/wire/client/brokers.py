"""Fake brokers that know each other, and peers that misbehave below the protocol."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping

from kafka_wire.api_keys import ApiKey
from kafka_wire.messages import MetadataRequest, MetadataResponse
from kafka_wire.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_wire.schema import Response
from tests.support.fake_broker import FakeBroker, Received
from tests.support.fake_topics import topic_id

TOPIC = "events"
THREAD_TIMEOUT_S = 5.0


class TwoBrokers:
    """A cluster of the nodes 0 and 1; `leaders` may be changed at any time."""

    def __init__(self, leaders: Mapping[int, int]) -> None:
        self.leaders = dict(leaders)
        self.epoch = 1
        self.nodes = [FakeBroker(node_id=node_id, topics={TOPIC: 2}) for node_id in (0, 1)]
        for node in self.nodes:
            node.handle(ApiKey.METADATA, self._metadata)

    @property
    def servers(self) -> list[str]:
        return [node.address for node in self.nodes]

    def elect(self, leaders: Mapping[int, int]) -> None:
        self.leaders.update(leaders)
        self.epoch += 1

    def _metadata(self, request: Received) -> Response:
        wanted = request.expect(MetadataRequest).topics
        partitions = [
            MetadataResponsePartition(
                partition_index=partition,
                leader_id=leader,
                leader_epoch=self.epoch,
                replica_nodes=[0, 1],
                isr_nodes=[0, 1],
            )
            for partition, leader in self.leaders.items()
        ]
        topic = MetadataResponseTopic(name=TOPIC, topic_id=topic_id(TOPIC), partitions=partitions)
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port)
                for node in self.nodes
            ],
            topics=[] if wanted == [] else [topic],
        )


@contextlib.contextmanager
def two_brokers(leaders: Mapping[int, int]) -> Iterator[TwoBrokers]:
    cluster = TwoBrokers(leaders)
    with cluster.nodes[0], cluster.nodes[1]:
        yield cluster


@contextlib.contextmanager
def peer(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a listener that hands each connection to `serve`, one after another."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    serve(connection)

        thread = threading.Thread(target=accept, name="peer")
        thread.start()
        host, port = listener.getsockname()
        try:
            yield f"{host}:{port}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(THREAD_TIMEOUT_S)


@contextlib.contextmanager
def deaf_peer() -> Iterator[str]:
    """The address of a listener that takes connections and never reads: half open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        yield f"{host}:{port}"


def dead_address() -> str:
    """An address where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        host, port = listener.getsockname()
        return f"{host}:{port}"
