"""A voter of registers in a process of its own, for tests that kill and stop processes.

    python -m tests.quorum.raft.voter_process SETUP

Registers are written and read over a control socket, a line of JSON per request and per answer, in
any order of answers. A driver that gives each answer a deadline is never held up by a voter that is
stopped or dead. Leadership goes to stdout, a line of JSON each, with the host's monotonic clock: a
kill loses none of it, and what the driver did can be laid beside it. The voter ends when its stdin
does, so that no voter outlives its driver.
"""

import asyncio
import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import msgspec

from floodmark.addresses import Address
from log.filesystem import OsFileSystem
from quorum.raft.node import RaftNode, RaftNodeOptions
from quorum.raft.port import Entry, Leadership, Outcome, Proposal
from quorum.raft.ports import RaftConfig
from quorum.raft.transport import Peers
from tests.quorum.leadership_events import LeadershipEvent

FATAL_EXIT = 70
SNAPSHOT_PIECE = 1000

# What an answer may say beside the outcomes of a proposal.
DONE = "done"
NOT_APPLIED = "answered before it was applied"

logger = logging.getLogger(__name__)


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The one argument, as JSON."""

    voter_id: int
    directory: str
    control_port: int
    raft_ports: dict[int, int]
    snapshot_entries: int


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`write` a value to a register, `read` one, or tell the `state` of this voter."""

    id: int
    f: str
    key: str = ""
    value: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: int
    outcome: str
    """DONE for a read or a state; the outcome of a proposal; NOT_APPLIED if the port's promise was
    broken."""
    value: int | None = None
    leader_id: int | None = None
    applied_index: int = 0
    snapshot_index: int | None = None
    writes: dict[str, list[int]] = {}
    """The state: all values that each register ever had, in order."""


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """A command in the log."""

    key: str
    value: int


class Registers:
    """The state machine. It keeps every value, so that what was applied twice or lost is seen."""

    def __init__(self, voter_id: int) -> None:
        self.writes: dict[str, list[int]] = {}
        self.applied_index = 0
        self.leadership: Leadership | None = None
        self._voter_id = voter_id
        self._decoder = msgspec.json.Decoder(Write)

    def value(self, key: str) -> int | None:
        values = self.writes.get(key)
        return values[-1] if values else None

    def apply(self, entry: Entry) -> None:
        if entry.data:
            write = self._decoder.decode(entry.data)
            self.writes.setdefault(write.key, []).append(write.value)
        self.applied_index = entry.index

    def capture(self) -> Callable[[], Iterator[bytes]]:
        # The lists only grow, so their lengths are all that has to be remembered.
        captured = [(key, values, len(values)) for key, values in self.writes.items()]

        def encode() -> Iterator[bytes]:
            for key, values, length in captured:
                for start in range(0, length, SNAPSHOT_PIECE):
                    piece = values[start : min(start + SNAPSHOT_PIECE, length)]
                    yield msgspec.json.encode((key, piece)) + b"\n"

        return encode

    def restore(self, snapshot: bytes, *, index: int, term: int) -> None:
        writes: dict[str, list[int]] = {}
        for line in snapshot.splitlines():
            key, piece = msgspec.json.decode(line, type=tuple[str, list[int]])
            writes.setdefault(key, []).extend(piece)
        self.writes = writes
        self.applied_index = index

    def leadership_changed(self, leadership: Leadership) -> None:
        self.leadership = leadership
        event = LeadershipEvent(
            t_ns=time.monotonic_ns(),
            pid=os.getpid(),
            voter_id=self._voter_id,
            term=leadership.term,
            is_active=leadership.is_active,
        )
        os.write(sys.stdout.fileno(), msgspec.json.encode(event) + b"\n")


class Control:
    """The control socket: requests to the engine, answers from its thread."""

    def __init__(self, node: RaftNode, registers: Registers) -> None:
        self._node = node
        self._registers = registers
        self._decoder = msgspec.json.Decoder(Request)

    async def serve(self, port: int) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", port)
        async with server:
            await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()

        def answer(found: Answer) -> None:
            loop.call_soon_threadsafe(writer.write, msgspec.json.encode(found) + b"\n")

        try:
            while line := await reader.readline():
                self._handle(self._decoder.decode(line), answer)
        except ConnectionError:
            pass  # the driver gave up on an answer
        finally:
            writer.close()

    def _handle(self, request: Request, answer: Callable[[Answer], None]) -> None:
        match request.f:
            case "write":
                command = msgspec.json.encode(Write(key=request.key, value=request.value))
                self._node.propose(command, lambda end: answer(self._written(request, end)))
            case "read":
                self._node.read_index(lambda index: answer(self._read(request, index)))
            case "state":
                answer(self._state(request))
            case _:
                raise ValueError(f"not a request: {request}")

    def _written(self, request: Request, proposal: Proposal) -> Answer:
        outcome = proposal.outcome.value
        if proposal.outcome is Outcome.COMMITTED:
            written = self._registers.writes.get(request.key, [])
            if request.value not in itertools.islice(reversed(written), SNAPSHOT_PIECE):
                outcome = NOT_APPLIED
        return Answer(id=request.id, outcome=outcome, leader_id=self._leader_id())

    def _read(self, request: Request, index: int | None) -> Answer:
        """On the engine's thread, so that nothing is applied between the index and the value."""
        if index is None:
            outcome = Outcome.NOT_LEADER.value
            return Answer(id=request.id, outcome=outcome, leader_id=self._leader_id())
        outcome = DONE if self._registers.applied_index >= index else NOT_APPLIED
        value = self._registers.value(request.key)
        return Answer(id=request.id, outcome=outcome, value=value, leader_id=self._leader_id())

    def _state(self, request: Request) -> Answer:
        leadership = self._registers.leadership
        return Answer(
            id=request.id,
            outcome=DONE,
            leader_id=None if leadership is None else leadership.leader_id,
            applied_index=self._registers.applied_index,
            snapshot_index=self._node.status().snapshot_index,
            writes={key: list(values) for key, values in dict(self._registers.writes).items()},
        )

    def _leader_id(self) -> int | None:
        leadership = self._registers.leadership
        return None if leadership is None else leadership.leader_id


def make_node(setup: Setup, registers: Registers) -> RaftNode:
    addresses = {i: Address("127.0.0.1", port) for i, port in setup.raft_ports.items()}
    listen = addresses.pop(setup.voter_id)
    voters = tuple(sorted(setup.raft_ports))
    options = RaftNodeOptions(
        config=RaftConfig(
            voter_id=setup.voter_id, voters=voters, snapshot_entries=setup.snapshot_entries
        ),
        filesystem=OsFileSystem(),
        directory=setup.directory,
        peers=Peers(
            voter_id=setup.voter_id,
            cluster_id="chaos",
            addresses=addresses,
            tls=None,
            certificate_name=lambda other: f"quorum-{other}",
        ),
        listen=listen,
    )
    return RaftNode(options, registers, registers, _fatal)


def _fatal(error: BaseException) -> None:
    logger.error("the voter failed: %r", error)
    os._exit(FATAL_EXIT)


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    setup = msgspec.json.decode(sys.argv[1], type=Setup)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    registers = Registers(setup.voter_id)
    node = make_node(setup, registers)
    node.start()
    asyncio.run(Control(node, registers).serve(setup.control_port))


if __name__ == "__main__":
    main()
