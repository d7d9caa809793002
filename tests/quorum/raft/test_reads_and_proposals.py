"""Who waits for what, and what each is told."""

import logging

import pytest

from quorum.raft.port import Outcome, Proposal
from quorum.raft.proposals import Proposals
from quorum.raft.reads import Reads


def reads(majority: int = 2) -> Reads:
    return Reads(voter_id=1, majority=majority)


# ------------------------------------------------------------------------------------- reads


def test_a_read_waits_for_a_majority_and_for_its_index() -> None:
    waiting, answers = reads(), list[int | None]()
    waiting.ask(answers.append)
    assert waiting.begin(term=3, commit_index=7)
    waiting.applied(9)
    assert answers == []
    waiting.confirm(2, term=3, sequence=1)
    waiting.applied(6)
    assert answers == []
    waiting.applied(7)
    assert answers == [7]


def test_a_voter_alone_confirms_itself() -> None:
    waiting, answers = reads(majority=1), list[int | None]()
    waiting.ask(answers.append)
    waiting.begin(term=3, commit_index=7)
    waiting.applied(7)
    assert answers == [7]


def test_one_voter_counts_once() -> None:
    waiting, answers = reads(majority=3), list[int | None]()
    waiting.ask(answers.append)
    waiting.begin(term=3, commit_index=7)
    for _ in range(5):
        waiting.confirm(2, term=3, sequence=1)
    waiting.confirm(1, term=3, sequence=1)
    waiting.applied(7)
    assert answers == []


@pytest.mark.parametrize(("term", "sequence"), [(2, 1), (4, 1), (3, 0), (3, 2)])
def test_answers_of_another_term_or_round_do_not_count(term: int, sequence: int) -> None:
    waiting, answers = reads(), list[int | None]()
    waiting.ask(answers.append)
    waiting.begin(term=3, commit_index=7)
    waiting.confirm(2, term=term, sequence=sequence)
    waiting.applied(7)
    assert answers == []


def test_who_asks_during_a_round_waits_for_the_next() -> None:
    """Something may be committed elsewhere between the first round's beginning and the question."""
    waiting, first, second = reads(), list[int | None](), list[int | None]()
    waiting.ask(first.append)
    waiting.begin(term=3, commit_index=7)
    waiting.ask(second.append)
    assert not waiting.begin(term=3, commit_index=8)
    waiting.confirm(2, term=3, sequence=1)
    waiting.applied(100)
    assert (first, second) == ([7], [])
    assert waiting.begin(term=3, commit_index=8)
    assert waiting.probe == 2
    waiting.confirm(2, term=3, sequence=1)
    waiting.applied(100)
    assert second == []
    waiting.confirm(2, term=3, sequence=2)
    waiting.applied(100)
    assert second == [8]


def test_no_round_begins_for_nobody() -> None:
    waiting = reads()
    assert not waiting.begin(term=3, commit_index=7)
    assert waiting.probe is None


def test_losing_leadership_fails_every_read_once() -> None:
    waiting, answers = reads(), list[int | None]()
    waiting.ask(answers.append)
    waiting.begin(term=3, commit_index=7)
    waiting.confirm(2, term=3, sequence=1)
    waiting.ask(answers.append)
    waiting.begin(term=3, commit_index=7)
    waiting.ask(answers.append)
    waiting.fail_all()
    assert answers == [None, None, None]
    waiting.confirm(2, term=3, sequence=2)
    waiting.applied(100)
    waiting.fail_all()
    assert len(answers) == 3
    assert len(waiting) == 0


def test_a_reader_that_raises_keeps_nobody_from_its_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting, answers = reads(majority=1), list[int | None]()

    def fail(_: int | None) -> None:
        raise RuntimeError("a reader's bug")

    waiting.ask(fail)
    waiting.ask(answers.append)
    waiting.begin(term=3, commit_index=7)
    with caplog.at_level(logging.ERROR):
        waiting.applied(7)
    assert answers == [7]
    assert "a callback failed" in caplog.text


# --------------------------------------------------------------------------------- proposals


class Told(list[Proposal]):
    """What somebody was told."""

    @property
    def outcomes(self) -> list[Outcome]:
        return [proposal.outcome for proposal in self]


def proposals(max_waiting: int = 3, max_command_bytes: int = 10) -> Proposals:
    return Proposals(max_waiting=max_waiting, max_command_bytes=max_command_bytes)


def place(waiting: Proposals, told: Told, *, index: int, term: int) -> None:
    waiting.offer(b"x", told.append)
    taken = waiting.take()
    assert taken is not None
    waiting.place(index, term, taken[1])


def test_proposals_are_taken_in_order() -> None:
    waiting = proposals()
    for data in (b"a", b"b", b"c"):
        waiting.offer(data, lambda _: None)
    assert [taken[0] for _ in range(3) if (taken := waiting.take())] == [b"a", b"b", b"c"]
    assert waiting.take() is None


@pytest.mark.parametrize(("size", "outcomes"), [(10, []), (11, [Outcome.REFUSED])])
def test_a_command_over_the_limit_is_refused(size: int, outcomes: list[Outcome]) -> None:
    waiting, told = proposals(), Told()
    waiting.offer(b"x" * size, told.append)
    assert told.outcomes == outcomes
    assert len(waiting) == 1 - len(outcomes)


def test_one_too_many_is_refused_and_the_others_wait() -> None:
    waiting, told = proposals(max_waiting=2), Told()
    for _ in range(3):
        waiting.offer(b"x", told.append)
    assert told.outcomes == [Outcome.REFUSED]
    assert len(waiting) == 2


def test_committed_is_what_was_applied_at_its_index_and_term() -> None:
    waiting, told = proposals(), Told()
    place(waiting, told, index=5, term=2)
    waiting.applied(4, 2)
    assert told == []
    waiting.applied(5, 2)
    assert told == [Proposal(outcome=Outcome.COMMITTED, index=5, term=2)]
    waiting.applied(5, 2)
    assert len(told) == 1


def test_discarded_is_what_another_took_the_place_of() -> None:
    waiting, told = proposals(), Told()
    place(waiting, told, index=5, term=2)
    waiting.applied(5, 3)
    assert told == [Proposal(outcome=Outcome.DISCARDED, index=5, term=2)]


def test_behind_a_snapshot_nobody_knows() -> None:
    waiting, told, later = proposals(), Told(), Told()
    place(waiting, told, index=5, term=2)
    place(waiting, told, index=6, term=2)
    place(waiting, later, index=7, term=2)
    waiting.skipped_to(6)
    assert told.outcomes == [Outcome.UNKNOWN, Outcome.UNKNOWN]
    assert [proposal.index for proposal in told] == [5, 6]
    assert later == []


def test_a_voter_that_stops_knows_only_of_what_never_had_a_place() -> None:
    waiting, placed, queued = proposals(), Told(), Told()
    place(waiting, placed, index=5, term=2)
    waiting.offer(b"x", queued.append)
    waiting.forget_all()
    assert placed.outcomes == [Outcome.UNKNOWN]
    assert queued.outcomes == [Outcome.NOT_LEADER]
    waiting.applied(5, 2)
    assert len(placed) == 1


def test_a_proposer_that_raises_keeps_nobody_from_its_answer() -> None:
    waiting, told = proposals(), Told()

    def fail(_: Proposal) -> None:
        raise RuntimeError("a proposer's bug")

    waiting.offer(b"x", fail)
    waiting.offer(b"x", told.append)
    waiting.refuse_all(Outcome.NOT_LEADER)
    assert told.outcomes == [Outcome.NOT_LEADER]
