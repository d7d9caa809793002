from collections.abc import Iterator

import pytest

from tests.wire.client.both import Connect, connecting


@pytest.fixture(params=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients of either kind; none may leave a thread, a task or a socket behind."""
    with connecting(request.param) as connect:
        yield connect


@pytest.fixture
def connect_blocking() -> Iterator[Connect]:
    with connecting("blocking") as connect:
        yield connect
