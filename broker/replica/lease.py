"""The broker's lease: until when it may take itself for the leader of what it leads.

Counted from when the heartbeat that was acknowledged was *sent*; the controller counts the session
from when it *received* it, so the lease is over before anybody else can be elected and the broker
dropped. All times are of CLOCK_BOOTTIME (rule 18): CLOCK_MONOTONIC stands still while the machine
is suspended, and the controller's does not.
"""

from typing import Final

DRIFT_DIVISOR: Final = 20
"""Two clocks may differ in speed by a twentieth; real ones do by far less."""


class BrokerLease:
    """One for a process: a restarted broker begins without (rule 14)."""

    def __init__(self) -> None:
        self._until_ms: int | None = None

    def acknowledged(self, *, sent_ms: int, session_timeout_ms: int) -> None:
        """The controller has answered a heartbeat, and does not say that we are fenced."""
        until_ms = sent_ms + session_timeout_ms - session_timeout_ms // DRIFT_DIVISOR
        # Answers may overtake each other; a later promise includes the earlier one.
        self._until_ms = until_ms if self._until_ms is None else max(self._until_ms, until_ms)

    def revoke(self) -> None:
        """We are fenced, or shutting down."""
        self._until_ms = None

    def holds(self, now_ms: int) -> bool:
        return self._until_ms is not None and now_ms < self._until_ms
