"""Clients of voter processes, and the history that they record.

A client waits for an answer only so long, whatever its voter does. An operation that was never sent
or that the voter says never happened has failed; one without an answer is of unknown outcome, and
the client goes on as a new process, as Jepsen's do.
"""

import random
import socket
import threading
import time
from collections.abc import Mapping, Sequence

import msgspec

from jepsen_style.operations import Operation, Status
from quorum.raft.port import Outcome
from tests.quorum.raft.voter_process import DONE, Answer, Request

KEYS = ("x", "y", "z")
CONNECT_TIMEOUT_S = 0.5
TIMEOUTS_S = (0.5, 3.0)
"""The long one outlasts a pause, so that a leader that was replaced meanwhile gets to answer."""
THINK_S = 0.004
BACKOFF_S = 0.03
VALUES_PER_CLIENT = 10_000_000
MAX_ANSWER_BYTES = 1 << 24

_OK = frozenset({DONE, Outcome.COMMITTED.value})
_FAILED = frozenset({o.value for o in (Outcome.NOT_LEADER, Outcome.DISCARDED, Outcome.REFUSED)})


class NotSentError(Exception):
    """Nothing has left: there was no connection."""


class NoAnswerError(Exception):
    """The request may have arrived."""


class Connection:
    """To one voter's control socket; connects again by itself."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._rest = b""
        self._ids = 0

    def ask(
        self, f: str, *, key: str = "", value: int = 0, timeout_s: float = CONNECT_TIMEOUT_S
    ) -> Answer:
        deadline = time.monotonic() + timeout_s
        connected = self._connected()
        self._ids += 1
        request = Request(id=self._ids, f=f, key=key, value=value)
        try:
            connected.settimeout(timeout_s)
            connected.sendall(msgspec.json.encode(request) + b"\n")
            answer = msgspec.json.decode(self._line(connected, deadline), type=Answer)
        except OSError as error:
            # A late answer must not be taken for the next one's.
            self.close()
            raise NoAnswerError(str(error)) from error
        if answer.id != request.id:
            raise ValueError(f"answer {answer.id} came to request {request.id}")
        return answer

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._rest = None, b""

    def _connected(self) -> socket.socket:
        if self._socket is None:
            try:
                self._socket = socket.create_connection(
                    ("127.0.0.1", self._port), timeout=CONNECT_TIMEOUT_S
                )
            except OSError as error:
                raise NotSentError(str(error)) from error
        return self._socket

    def _line(self, connected: socket.socket, deadline: float) -> bytes:
        received = bytearray(self._rest)
        while b"\n" not in received:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("no answer in time")
            connected.settimeout(left_s)
            more = connected.recv(1 << 16)
            if not more:
                raise ConnectionError("the voter closed the connection")
            received += more
            if len(received) > MAX_ANSWER_BYTES:
                raise ConnectionError("the answer has no end")
        line, _, self._rest = bytes(received).partition(b"\n")
        return line


class RegisterClient:
    """One client, for one thread. `history` grows by one operation per step."""

    def __init__(self, number: int, ports: Mapping[int, int], *, seed: int, clients: int) -> None:
        self.history: list[Operation] = []
        self.acknowledged = 0
        self.broken_promises: list[str] = []
        """Answers that say that a voter broke a promise of its port."""
        self._number = number
        self._clients = clients
        self._process = number
        self._writes = 0
        self._random = random.Random(f"{seed}/{number}")
        self._connections = {voter_id: Connection(port) for voter_id, port in ports.items()}
        self._voters = tuple(ports)
        self._target = self._random.choice(self._voters)

    def run(self, stop: threading.Event) -> None:
        """Reads and writes until it is told to stop."""
        try:
            while not stop.is_set():
                status = self.step(self._random.choice(("read", "write")), self._pick_key())
                stop.wait(THINK_S if status is Status.OK else BACKOFF_S)
        finally:
            self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def step(self, f: str, key: str) -> Status:
        """One operation on whoever is believed to lead, now and then on anyone."""
        is_guess = self._random.random() < 0.1
        target = self._random.choice(self._voters) if is_guess else self._target
        value = self._next_value() if f == "write" else None
        t_invoke_ns = time.monotonic_ns()
        answer: Answer | None = None
        try:
            timeout_s = self._random.choice(TIMEOUTS_S)
            answer = self._connections[target].ask(
                f, key=key, value=value or 0, timeout_s=timeout_s
            )
            status = self._status(answer)
        except NotSentError:
            status = Status.FAIL
        except NoAnswerError:
            status = Status.INFO
        self.history.append(
            Operation(
                process=self._process,
                f=f,
                key=key,
                value=value,
                output=answer.value if answer is not None and f == "read" else None,
                t_invoke_ns=t_invoke_ns,
                t_return_ns=time.monotonic_ns(),
                status=status,
            )
        )
        self._learn(target, status, answer)
        return status

    def until_ok(self, f: str, key: str, *, deadline_s: float) -> Operation:
        """Steps until one is acknowledged; all of them are in the history."""
        deadline = time.monotonic() + deadline_s
        pause = threading.Event()
        while self.step(f, key) is not Status.OK:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no voter acknowledges a {f} of {key}")
            pause.wait(BACKOFF_S)
        return self.history[-1]

    def _learn(self, target: int, status: Status, answer: Answer | None) -> None:
        if status is Status.OK:
            self.acknowledged += 1
            self._target = target
            return
        if status is Status.INFO:
            self._process += self._clients
        named = answer.leader_id if answer is not None else None
        others = [each for each in self._voters if each != target]
        self._target = named if named in others else self._random.choice(others)

    def _status(self, answer: Answer) -> Status:
        if answer.outcome in _OK:
            return Status.OK
        if answer.outcome in _FAILED:
            return Status.FAIL
        if answer.outcome != Outcome.UNKNOWN.value:
            self.broken_promises.append(f"{answer}")
        return Status.INFO

    def _pick_key(self) -> str:
        return self._random.choice(KEYS)

    def _next_value(self) -> int:
        self._writes += 1
        return self._number * VALUES_PER_CLIENT + self._writes


def ask_states(ports: Mapping[int, int]) -> dict[int, Answer]:
    """The state of every voter that answers soon."""
    states: dict[int, Answer] = {}
    for voter_id, port in ports.items():
        connection = Connection(port)
        try:
            states[voter_id] = connection.ask("state", timeout_s=2.0)
        except (NotSentError, NoAnswerError):
            pass  # whoever needs all of them asks again
        finally:
            connection.close()
    return states


def merged(clients: Sequence[RegisterClient]) -> list[Operation]:
    return sorted(
        (operation for client in clients for operation in client.history),
        key=lambda operation: operation.t_invoke_ns,
    )
