"""Conditions that hold in every state the program can be in.

A broken invariant means that the state can no longer be trusted, so the process must stop: a
broker in an impossible state that goes on can lose acknowledged records. `assert` is not used for
this, because `python -O` strips it.
"""


class InvariantViolation(Exception):  # noqa: N818 - a violation, not an error someone made
    """The program is in a state that its design rules out. Never caught to go on."""


def invariant(condition: bool, message: str, /, **facts: object) -> None:
    """Raise `InvariantViolation` unless `condition` holds.

    `facts` are the values a reader needs to understand the violation. They are formatted only
    when it happens, so the call costs little on a hot path:

        invariant(
            end <= log_end_offset, "high watermark beyond the log", end=end, leo=log_end_offset
        )
    """
    if not condition:
        raise InvariantViolation(_describe(message, facts))


def _describe(message: str, facts: dict[str, object]) -> str:
    if not facts:
        return message
    return f"{message} ({', '.join(f'{name}={value!r}' for name, value in facts.items())})"
