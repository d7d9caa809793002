"""The way from the engine's thread to the event loop: one queue, one order.

What the state machine applied, how a proposal ended and who leads are all told through the same
inbox, so the loop sees them in the order in which the engine said them; the active controller
relies on that. Waking a loop costs a system call, so a burst wakes it once.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

DRAIN_LIMIT: Final = 1000
"""Calls that one turn of the loop makes, so that a burst does not keep connections waiting."""


class LoopInbox:
    """Calls that another thread wants made on the loop.

    The queue has no bound of its own: what enters it is bounded by the engine (its limit of
    proposals, and one entry applied at a time), and an entry that was committed cannot be refused.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_error: Callable[[Exception], None]):
        self._loop = loop
        self._on_error = on_error
        self._calls: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._is_scheduled = False
        self._is_closed = False

    def post(self, call: Callable[[], None]) -> None:
        """From any thread. After `close` it does nothing: nobody listens any more."""
        with self._lock:
            if self._is_closed:
                return
            self._calls.append(call)
            if self._is_scheduled:
                return
            self._is_scheduled = True
            self._loop.call_soon_threadsafe(self._drain)

    def close(self) -> None:
        """From the loop, before it ends."""
        with self._lock:
            self._is_closed = True
            self._calls.clear()

    def _drain(self) -> None:
        for _ in range(DRAIN_LIMIT):
            with self._lock:
                if not self._calls:
                    self._is_scheduled = False
                    return
                call = self._calls.popleft()
            try:
                call()
            except Exception as error:  # noqa: BLE001 - handed on: it stops the voter
                self._on_error(error)
        self._loop.call_soon(self._drain)
