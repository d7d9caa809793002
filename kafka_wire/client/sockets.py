"""What both drivers ask of a socket."""

import select


def has_unread(file_number: int) -> bool:
    """Whether something is there to read: where no answer is due, the end of the stream."""
    poll = select.poll()
    poll.register(file_number, select.POLLIN)
    return bool(poll.poll(0))
