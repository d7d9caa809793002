"""The pysyncobj that was read and tested, and how its clock is replaced in a simulation.

The version and the source of every method that the voter replaces, calls by a private name, or
whose steps it rests on are pinned: an upgrade that changes one is refused until somebody has read
it.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from random import Random

import pysyncobj.syncobj as stock
from pysyncobj import SyncObj
from pysyncobj.version import VERSION

from floodmark.invariant import invariant

PYSYNCOBJ_VERSION = "0.3.17"

METHODS = {
    "__init__": "09df12cd7fd7d727",
    "_onTick": "cc9eb08232d005ba",
    "doTick": "bef78c2ba06d784b",
    "_checkCommandsToApply": "a386a8079361d204",
    "forceLogCompaction": "00154a6c3c106824",
    "_isLeader": "56c32c31db26cdc0",
    "_getLeader": "90e3b8391a79e851",
    "_SyncObj__applyLogEntries": "073db677773b5a2d",
    "_SyncObj__doApplyCommand": "1ea7aa506e950d0a",
    "_SyncObj__onMessageReceived": "ddfe34b6c0282179",
    "_SyncObj__generateRaftTimeout": "92ed37d3620e781a",
    "_SyncObj__onBecomeLeader": "5a3fd97bc17dc1cf",
    "_SyncObj__setCurrentTerm": "0ad5bf456ac06bd3",
    "_SyncObj__setState": "2c1f239f7bd79b39",
    "_SyncObj__sendAppendEntries": "9cb9073128c392fa",
    "_SyncObj__getEntries": "e29c4b33293b2101",
    "_SyncObj__getPrevLogIndexTerm": "6766914806ae2311",
    "_SyncObj__getCurrentLogIndex": "e5af22ca246686bd",
    "_SyncObj__getCurrentLogTerm": "1cb8867e6a13d397",
    "_SyncObj__connectedToAnyone": "acd40e9e3ac6c4cc",
    "_SyncObj__onLeaderChanged": "53b7685e1d897887",
    "_SyncObj__tryLogCompaction": "c2f8a0ec14cc7312",
    "_SyncObj__deleteEntriesTo": "b7b29988856a66b3",
}


@cache
def check_pin() -> None:
    """Raises unless this is the pysyncobj that was read and tested."""
    invariant(VERSION == PYSYNCOBJ_VERSION, "an unknown pysyncobj", version=VERSION)
    for name, expected in METHODS.items():
        found = method_hash(name)
        invariant(found == expected, "pysyncobj has changed under us", method=name, found=found)


def method_hash(name: str) -> str:
    source = inspect.getsource(getattr(SyncObj, name))
    return hashlib.sha256(source.encode()).hexdigest()[:16]


@contextmanager
def simulated_time(now_s: Callable[[], float], random: Random) -> Iterator[None]:
    """Lets every engine of this process live in a simulated time, with a random of its own.

    pysyncobj reads both from its module, so they cannot be arguments of an engine.
    """
    before = stock.monotonicTime, stock.random
    stock.monotonicTime, stock.random = now_s, random
    try:
        yield
    finally:
        stock.monotonicTime, stock.random = before
