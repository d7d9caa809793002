"""Sessions of kcat, which is whichever librdkafka the system has."""

import subprocess

from tests.support.external import require_program
from tests.wire.sessions import GROUP, KEY, TIMEOUT_S, TOPIC, TRANSACTIONAL_ID, VALUES

HEADERS = [("trace", b"1"), ("trace", b"2")]
LINES = [value for value in VALUES if value]
"""kcat sends lines of text, and no empty ones."""


def list_metadata(address: str) -> None:
    assert TOPIC in _kcat(address, "-L")


def produce(address: str, *, codec: str = "none", acks: int = -1, idempotent: bool = False) -> None:
    _send(
        address,
        *("-z", codec, "-X", f"acks={acks}", "-X", f"enable.idempotence={str(idempotent).lower()}"),
    )


def transactions(address: str) -> None:
    _send(address, "-X", f"transactional.id={TRANSACTIONAL_ID}")


def consume(address: str) -> None:
    printed = _kcat(address, "-C", "-t", TOPIC, "-p", "0", "-o", "beginning", "-c", "1")
    assert printed.encode() == VALUES[0] + b"\n"


def join_group(address: str) -> None:
    printed = _kcat(address, "-X", "auto.offset.reset=earliest", "-c", "1", "-G", GROUP, TOPIC)
    assert printed.encode() == VALUES[0] + b"\n"


def _send(address: str, *settings: str) -> None:
    headers = [part for name, value in HEADERS for part in ("-H", f"{name}={value.decode()}")]
    to = ("-P", "-t", TOPIC, "-p", "0", "-k", KEY.decode())
    _kcat(address, *to, *headers, *settings, stdin=b"\n".join(LINES))


def _kcat(address: str, *arguments: str, stdin: bytes = b"") -> str:
    done = subprocess.run(
        [require_program("kcat"), "-b", address, "-X", "fetch.wait.max.ms=50", *arguments],
        input=stdin,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
