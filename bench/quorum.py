"""The metadata quorum: three voters as processes on loopback, with every write synced to disk.

* Commands of 100 bytes are proposed inside the leader's process (this one) and counted once they
  are committed there. The peer that writes a file says what one sync costs here; stock pysyncobj
  keeps a journal and never syncs it, so it answers for less.
* Everything else is `floodmark-quorum` with its default settings (but for a long session of the
  brokers, so that a busy machine fences nobody), used through its client, with three brokers that
  send heartbeats all the time, five times as often as brokers do.
* All voters take their snapshots at the same time, as they do in production: they count the same
  entries. The machine has to do the work of three.
* A broker that catches up is a new process. It reads the stream of metadata until it has an image
  of everything; its start and its imports are not counted.

Files lie on the disk of the repository, under `build/`, and are removed in the end.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import quorum_cluster, quorum_commands
from bench.harness import Clock, Limit, Suite
from bench.quorum_brokers import HEARTBEAT_S, Brokers
from bench.quorum_cluster import Cluster, Watched
from bench.quorum_commands import Propose, SyncedFile
from bench.results import ROOT
from quorum.client import MetadataSnapshot, QuorumClient
from quorum.metadata.image import EMPTY_IMAGE, apply_batch
from quorum.metadata.snapshot import decode_snapshot
from quorum.metadata.types import MetadataOffset

CATCH_UP = "--catch-up"
PARTITIONS_PER_TOPIC = 10
ELECTION_TIMEOUT_MS = 300
"""A follower that hears nothing for so long stands for election."""
SESSION_TIMEOUT_MS = 3000
"""A broker whose heartbeat is not answered for so long has no lease, by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything."""

    sequential: int = 500
    pipelined: int = 20_000
    kills: int = 9
    kills_when_large: int = 7
    topics: int = 1000
    partitions: int = 100_000
    snapshots: int = 5


QUICK = Sizes(
    sequential=20,
    pipelined=2000,
    kills=1,
    kills_when_large=1,
    topics=20,
    partitions=1000,
    snapshots=2,
)


def main() -> int:
    suite = Suite("quorum", distributions={"stock pysyncobj": "pysyncobj"})
    sizes = QUICK if "--quick" in sys.argv else Sizes()
    with folder() as place:
        commands(suite, sizes, place)
        failover(suite, sizes, place)
        large_cluster(suite, sizes, place)
    return suite.finish()


@contextmanager
def folder() -> Iterator[Path]:
    """A place on the disk of the repository; /tmp may be in memory."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build, prefix="bench-quorum-") as name:
        yield Path(name)


# --- commands ------------------------------------------------------------------------------------


def commands(suite: Suite, sizes: Sizes, place: Path) -> None:
    """Ours alone for the limits; then with the peers, in interleaved rounds."""
    with quorum_commands.our_leader(place) as ours:
        suite.measure(
            "a sequential command (2 ms are 500/s)",
            per_command(partial(quorum_commands.sequential, ours), sizes.sequential, 1e3),
            unit="ms",
            target=Limit(at_most=2),
        )
        suite.measure(
            "a pipelined command, window 1000 (50 µs are 20,000/s)",
            per_command(partial(quorum_commands.pipelined, ours), sizes.pipelined, 1e6),
            unit="µs",
            target=Limit(at_most=50),
        )
        with quorum_commands.stock_leader(place) as stock:
            compare_commands(suite, place, ours, stock)


def compare_commands(suite: Suite, place: Path, ours: Propose, stock: Propose) -> None:
    file = SyncedFile(place / "synced")
    suite.compare(
        "a sequential command, wall time",
        ours=partial(quorum_commands.sequential, ours),
        peers={
            "write and fdatasync": file.write,
            "stock pysyncobj": partial(quorum_commands.sequential, stock),
        },
        clock=Clock.WALL,
    )
    file.close()
    count = 2000
    suite.compare(
        f"{count} commands, window 1000, wall time",
        ours=partial(quorum_commands.pipelined, ours, count),
        peers={"stock pysyncobj": partial(quorum_commands.pipelined, stock, count)},
        clock=Clock.WALL,
    )


def per_command(run: Callable[[int], None], count: int, units_per_s: float) -> Callable[[], float]:
    def sample() -> float:
        start = time.perf_counter()
        run(count)
        return (time.perf_counter() - start) / count * units_per_s

    return sample


# --- the service ---------------------------------------------------------------------------------


def failover(suite: Suite, sizes: Sizes, place: Path) -> None:
    with quorum_cluster.running(place / "failover") as cluster:
        suite.measure(
            "new active controller after kill -9 of the leader",
            cluster.failover_ms,
            target=Limit(at_most=1000),
            samples=sizes.kills,
        )


def large_cluster(suite: Suite, sizes: Sizes, place: Path) -> None:
    """A cluster that grows to its full size, and what it costs there."""
    running = quorum_cluster.running(place / "large")
    with running as cluster, Brokers(cluster.addresses) as brokers:
        made = topics(suite, sizes, cluster, brokers)
        fill(sizes, brokers, made)
        cluster.wait_until_whole()
        memory(suite, f"memory of a voter that saw {sizes.partitions} partitions made", cluster)
        snapshots(suite, sizes, cluster, brokers)
        restart(suite, sizes, cluster)
        catch_up(suite, sizes, cluster)
        memory(suite, f"memory of a voter with {sizes.partitions} partitions", cluster)
        suite.measure(
            f"new active controller after kill -9, with {sizes.partitions} partitions",
            cluster.failover_ms,
            target=Limit(at_most=1000),
            samples=sizes.kills_when_large,
        )


def topics(suite: Suite, sizes: Sizes, cluster: Cluster, brokers: Brokers) -> int:
    """Returns how many were made."""
    made = 0
    for per_request in (sizes.topics, sizes.topics // 10, 1):
        watched: list[Watched] = []

        def sample(per_request: int = per_request, watched: list[Watched] = watched) -> float:
            nonlocal made
            made += sizes.topics
            end = cluster.watch()
            taken_s = brokers.create_topics(
                f"topic-{made}",
                count=sizes.topics,
                partitions=PARTITIONS_PER_TOPIC,
                per_request=per_request,
            )
            cluster.wait_until_whole()
            watched.append(end())
            return taken_s

        label = (
            f"create {sizes.topics} topics x {PARTITIONS_PER_TOPIC} partitions, "
            f"{per_request} in a request"
        )
        suite.measure(label, sample, unit="s", target=Limit(at_most=10), samples=3)
        calm(suite, label, watched)
    return made


def calm(suite: Suite, label: str, watched: Sequence[Watched]) -> None:
    """Whether the leader was heard all the time."""
    limit = Limit(at_most=ELECTION_TIMEOUT_MS)
    silences = [found.silence_ms for found in watched]
    record(suite, f"{label}: longest silence that a follower heard", silences, target=limit)
    ticks = [found.tick_ms for found in watched]
    record(suite, f"{label}: longest time between two ticks", ticks, target=limit)
    new_terms = [float(found.new_terms) for found in watched]
    record(suite, f"{label}: new terms", new_terms, unit="terms", target=Limit(at_most=0))


def fill(sizes: Sizes, brokers: Brokers, made: int) -> None:
    left = sizes.partitions // PARTITIONS_PER_TOPIC - made
    if left > 0:
        brokers.create_topics("more", count=left, partitions=PARTITIONS_PER_TOPIC, per_request=100)


def memory(suite: Suite, label: str, cluster: Cluster) -> None:
    """The largest of the three."""
    suite.measure(
        label,
        lambda: max(voter.memory_mb() for voter in cluster.voters),
        unit="MB",
        target=Limit(at_most=400),
        samples=1,
    )


def snapshots(suite: Suite, sizes: Sizes, cluster: Cluster, brokers: Brokers) -> None:
    taken_s, heartbeats_ms, watched = [], [], []
    for _ in range(sizes.snapshots):
        brokers.change_something()
        cluster.wait_until_whole()
        brokers.longest_heartbeat_ms = 0.0
        end = cluster.watch()
        taken_s.append(cluster.take_snapshots())
        time.sleep(2 * HEARTBEAT_S)  # the heartbeats that came meanwhile are answered, too
        watched.append(end())
        heartbeats_ms.append(brokers.longest_heartbeat_ms)
    label = f"snapshot of {sizes.partitions} partitions"
    record(suite, label, taken_s, unit="s", target=Limit(at_most=5))
    calm(suite, label, watched)
    record(
        suite,
        f"{label}: slowest answer to a broker's heartbeat",
        heartbeats_ms,
        target=Limit(at_most=SESSION_TIMEOUT_MS),
    )


def restart(suite: Suite, sizes: Sizes, cluster: Cluster) -> None:
    """From here on voters hold a snapshot and no entries before it."""
    cluster.stop()
    start = time.perf_counter()
    cluster.start()
    record(
        suite,
        f"start of all three voters with {sizes.partitions} partitions, until all have caught up",
        [time.perf_counter() - start],
        unit="s",
    )


def catch_up(suite: Suite, sizes: Sizes, cluster: Cluster) -> None:
    """Twice from every voter: the first broker that asks has the snapshot encoded for it."""
    addresses = cluster.addresses
    for label in ("first of a voter", "next of a voter"):
        record(
            suite,
            f"a broker catches up with {sizes.partitions} partitions, {label}",
            [catch_up_in_a_process(address, sizes.partitions) for address in addresses],
            unit="s",
            target=Limit(at_most=5),
        )


def catch_up_in_a_process(address: str, partitions: int) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "bench.quorum", CATCH_UP, address, str(partitions)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


async def catch_up_s(address: str, partitions: int) -> float:
    """What a broker does when it starts without metadata."""
    start = time.perf_counter()
    image = EMPTY_IMAGE
    had_snapshot = False
    async with QuorumClient([address]) as client, aclosing(client.metadata_stream()) as events:
        async for event in events:
            if isinstance(event, MetadataSnapshot):
                image, had_snapshot = decode_snapshot(event.data), True
            else:
                offset = MetadataOffset(event.offset)
                image = apply_batch(image, event.records, offset=offset, epoch=event.epoch).image
            if image.index.count >= partitions:
                break
    assert had_snapshot, "the voter has sent batches only"
    return time.perf_counter() - start


def record(
    suite: Suite,
    label: str,
    values: Sequence[float],
    *,
    unit: str = "ms",
    target: Limit | None = None,
) -> None:
    """Numbers that were measured together."""
    suite.measure(label, partial(next, iter(values)), unit=unit, target=target, samples=len(values))


if __name__ == "__main__":
    match sys.argv[1:]:
        case [
            (quorum_commands.RAFT_VOTER | quorum_commands.STOCK_VOTER) as kind,
            voter,
            path,
            *ports,
        ]:
            quorum_commands.run_follower(kind, int(voter), Path(path), [int(p) for p in ports])
        case [quorum_cluster.WATCHED_VOTER, path]:
            sys.exit(quorum_cluster.run_voter(Path(path)))
        case [arg, address, partitions] if arg == CATCH_UP:
            print(asyncio.run(catch_up_s(address, int(partitions))))
        case _:
            sys.exit(main())
