"""What a `FakeBroker` answers by default.

It is a cluster of one, in which whatever a client wants succeeds. APIs without a handler get an
answer in which every field is zero, empty or null: a client may give up on it, but it has sent its
request by then.
"""

from typing import TYPE_CHECKING, Any

from kafka_wire.messages import RESPONSES
from kafka_wire.schema import ArrayOf, Fixed, Response, Struct, StructOf, Variable, fields_of
from tests.support.fake_admin import admin_handlers
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.fake_topics import FakeTopics

if TYPE_CHECKING:
    from tests.support.fake_broker import FakeBroker, Handler, Received


def default_handlers(
    broker: "FakeBroker", topics: FakeTopics, coordinator: FakeCoordinator
) -> "dict[int, Handler]":
    return {
        **{key: _blank_handler(response) for key, response in RESPONSES.items()},
        **topics.handlers(),
        **coordinator.handlers(),
        **admin_handlers(broker),
    }


def blank(struct: type[Struct]) -> Struct:
    """A struct whose required fields are zero, empty or null."""
    values: dict[str, Any] = {}
    for field in fields_of(struct):
        if field.required:
            values[field.name] = None if field.nullable is not None else _zero(field.wire)
    return struct(**values)


def _zero(wire: object) -> object:
    match wire:
        case Fixed(format="?"):
            return False
        case Fixed(format="d"):
            return 0.0
        case Fixed():
            return 0
        case Variable(kind="string"):
            return ""
        case Variable(kind="uuid"):
            return bytes(16)
        case Variable():
            return b""
        case ArrayOf():
            return []
        case StructOf(struct=struct):
            return blank(struct)
        case _:
            raise TypeError(f"{wire!r} has no zero")


def _blank_handler(response: type[Response]) -> "Handler":
    def answer(_: "Received") -> Response:
        empty = blank(response)
        assert isinstance(empty, Response)
        return empty

    return answer
