"""Histories that other tools have written, read as operations.

- Jepsen's log (`.log`): lines `INFO  jepsen.util - PROCESS :TYPE :F VALUE`. A cas that failed was
  refused, which says something about the value; a read that failed says nothing.
- EDN (`.edn`): the maps of a Jepsen or Knossos history. What failed did not happen. A read of nil
  that is ok was told nothing.
- Key-value text (`.txt`): a map per line with a `:key`, as Porcupine's tests have them.

Where events carry no time their order is their time. An operation that is invoked and never
completed is of unknown outcome, and so is one whose process goes on without it.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from jepsen_style.checkers.edn import EdnError, EdnMap, read_all
from jepsen_style.operations import Operation, Status

_LOG_LINE = re.compile(r"INFO\s+jepsen\.util\s+-\s+(?P<event>\d+\s+:\w+\s+:\w+\s+.*)")


class HistoryError(ValueError):
    """The text is not a history of this format; says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An invocation (`invoke`) or a completion (`ok`, `fail`, `info`) of a process."""

    process: int
    type: str
    f: str
    key: Hashable = None
    value: Hashable = None


def read_jepsen_log(text: str) -> list[Operation]:
    """A register's history from a Jepsen log; other lines are skipped."""
    return list(_operations(_log_events(text), nil_is_value=True))


def read_edn(text: str) -> list[Operation]:
    """A history from EDN: one collection of maps, or maps one after the other."""
    return list(_operations(_edn_events(text), nil_is_value=False))


def read_key_value_text(text: str) -> list[Operation]:
    """A key-value history, a map per line."""
    return list(_operations(_edn_events(text), nil_is_value=True))


def _operations(events: Iterable[Event], *, nil_is_value: bool) -> Iterator[Operation]:
    """Pair invocations with completions; in the order of completion, the unfinished last."""
    pending: dict[int, tuple[int, Event]] = {}
    for now, event in enumerate(events):
        if event.type == "invoke":
            if event.process in pending:
                yield _operation(*pending.pop(event.process))
            pending[event.process] = (now, event)
        elif event.type not in ("ok", "fail", "info"):
            raise HistoryError(f"event {now}: {event.type!r} is not invoke, ok, fail or info")
        else:
            if event.process not in pending:
                raise HistoryError(f"event {now}: process {event.process} completes nothing")
            invoked, invocation = pending.pop(event.process)
            if invocation.f != event.f:
                raise HistoryError(f"event {now}: a {invocation.f} completes as a {event.f}")
            told_nothing = event.f == "read" and event.value is None and not nil_is_value
            if event.type == "ok" and not told_nothing:
                yield _operation(invoked, invocation, now, event)
            else:
                failed = event.type == "fail"
                yield _operation(invoked, invocation, status=Status.FAIL if failed else Status.INFO)
    for invoked, invocation in pending.values():
        yield _operation(invoked, invocation)


def _operation(
    invoked: int,
    invocation: Event,
    returned: int | None = None,
    completion: Event | None = None,
    *,
    status: Status = Status.INFO,
) -> Operation:
    if completion is not None:
        status = Status.OK
    asks = invocation.f in ("read", "get")
    output: Hashable = None
    if completion is not None and invocation.f == "cas":
        output = completion.value != "refused"
    elif completion is not None and asks:
        output = completion.value
    return Operation(
        process=invocation.process,
        f=invocation.f,
        key=invocation.key,
        value=None if asks else invocation.value,
        output=output,
        t_invoke_ns=invoked,
        t_return_ns=returned,
        status=status,
    )


def _log_events(text: str) -> Iterator[Event]:
    for number, line in enumerate(text.splitlines(), start=1):
        found = _LOG_LINE.match(line)
        if found is None:
            continue
        forms = _forms(found["event"], f"line {number}")
        if len(forms) != 4:
            raise HistoryError(f"line {number}: not process, type, function and value")
        process, kind, f, value = forms
        if (kind, f) == ("fail", "cas") and isinstance(value, tuple):
            kind, value = "ok", "refused"
        elif (kind, f) == ("fail", "read"):
            kind = "info"
        yield _event(process, kind, f, None, value, f"line {number}")


def _edn_events(text: str) -> Iterator[Event]:
    forms = _forms(text, "the history")
    if len(forms) == 1 and isinstance(forms[0], tuple):
        forms = list(forms[0])
    for number, form in enumerate(forms, start=1):
        if not isinstance(form, EdnMap):
            raise HistoryError(f"event {number} is not a map")
        fields: Mapping[Hashable, object] = form
        process = fields.get("process")
        if isinstance(process, str):
            continue  # the nemesis
        yield _event(
            process,
            fields.get("type"),
            fields.get("f"),
            fields.get("key"),
            fields.get("value"),
            f"event {number}",
        )


def _forms(text: str, where: str) -> list[object]:
    try:
        return read_all(text)
    except EdnError as error:
        raise HistoryError(f"{where}: {error}") from None


def _event(
    process: object, kind: object, f: object, key: object, value: object, where: str
) -> Event:
    if not isinstance(process, int) or not isinstance(kind, str) or not isinstance(f, str):
        raise HistoryError(f"{where} has no process, type or function")
    try:
        hash((key, value))
    except TypeError:
        raise HistoryError(f"{where} has a map for a key or a value") from None
    return Event(process=process, type=str(kind), f=str(f), key=key, value=value)
