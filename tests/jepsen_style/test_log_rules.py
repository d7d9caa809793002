"""Each rule of the log checker, by histories that a person can follow."""

import pytest

from floodmark.invariant import InvariantViolation
from jepsen_style.checkers.log import check_log
from jepsen_style.checkers.log_history import LogModel, LogOperation
from jepsen_style.checkers.log_verdict import LogAnomaly
from jepsen_style.checkers.verdict import Validity
from jepsen_style.operations import Status
from tests.jepsen_style.log_histories import append, read

STRICT, PREFIX, ACKS1 = LogModel.STRICT_LOG, LogModel.COMMITTED_PREFIX, LogModel.ACKS1


def anomalies(
    *history: LogOperation, model: LogModel = STRICT, compacted: bool = False
) -> set[LogAnomaly]:
    verdict = check_log(history, model, compacted=compacted)
    assert verdict.valid == (verdict.validity is Validity.VALID)
    return {each.anomaly for each in verdict.evidence}


@pytest.mark.parametrize("model", LogModel)
def test_an_empty_history_is_valid(model: LogModel) -> None:
    assert check_log([], model).valid


@pytest.mark.parametrize("model", LogModel)
def test_acknowledged_records_that_are_read_in_order_are_valid(model: LogModel) -> None:
    history = [
        append(1, at=0, t=(0, 1)),
        append(2, 3, at=1, t=(2, 3)),
        read(1, 2, 3, end=3, t=(4, 5)),
    ]
    assert check_log(history, model).valid


# ------------------------------------------------------------------------- R1: answers agree


def test_one_offset_holds_one_value() -> None:
    two = (append(1, at=0, t=(0, 9)), append(2, at=0, t=(0, 9)))
    assert anomalies(*two) == {LogAnomaly.INCONSISTENT_OFFSETS}


def test_readers_agree_about_an_offset() -> None:
    appends = (append(1, t=(0, None)), append(2, t=(0, None)))
    reads = (read(1, t=(1, 2)), read(2, t=(1, 2)))
    for model in LogModel:
        assert anomalies(*appends, *reads, model=model) == {LogAnomaly.INCONSISTENT_OFFSETS}


def test_one_value_is_at_one_offset() -> None:
    history = (append(1, at=0, t=(0, 1)), append(2, at=1, t=(2, 3)), read(1, start=2, t=(4, 5)))
    assert anomalies(*history) == {LogAnomaly.DUPLICATE}


def test_a_value_repeated_in_one_read_is_told_with_that_read_alone() -> None:
    twice = read(1, 1, t=(2, 3))
    verdict = check_log([append(1, at=0, t=(0, 1)), twice])
    assert [each.anomaly for each in verdict.evidence] == [LogAnomaly.DUPLICATE]
    assert verdict.evidence[0].operations == (twice,)


def test_a_value_is_read_where_it_was_acknowledged_even_if_acks_may_be_lost() -> None:
    history = (append(1, at=0, t=(0, 1)), append(2, t=(0, None)), read(2, 1, t=(2, 3)))
    assert anomalies(*history, model=ACKS1) == {LogAnomaly.DUPLICATE}


def test_a_read_ends_at_or_before_its_high_watermark() -> None:
    appends = (append(1, at=0, t=(0, 9)), append(2, at=1, t=(0, 9)))
    assert anomalies(*appends, read(1, 2, end=2, t=(1, 9))) == set()
    assert anomalies(*appends, read(1, 2, end=1, t=(1, 9))) == {LogAnomaly.READ_PAST_END}


def test_the_offsets_of_a_read_ascend_from_its_start() -> None:
    appends = (append(1, at=0, t=(0, 1)), append(2, at=1, t=(0, 1)))
    back = read(2, 1, offsets=(1, 0), t=(2, 3))
    before = read(1, 2, start=1, offsets=(0, 1), t=(2, 3))
    assert anomalies(*appends, back) == {LogAnomaly.DISORDERED_READ}
    assert anomalies(*appends, before) == {LogAnomaly.DISORDERED_READ}


def test_a_read_does_not_skip_a_record() -> None:
    appends = (append(1, 2, 3, at=0, t=(0, 1)),)
    skips = read(1, 3, offsets=(0, 2), t=(2, 3))
    verdict = check_log([*appends, skips])
    assert [each.anomaly for each in verdict.evidence] == [LogAnomaly.SKIPPED_OFFSET]
    assert verdict.evidence[0].operations == (*appends, skips)
    assert anomalies(*appends, skips, compacted=True) == set()


def test_a_control_batch_is_passed_without_a_record() -> None:
    appends = (append(1, at=0, t=(0, 1)), append(3, at=2, t=(2, 3)))
    named = read(1, 3, offsets=(0, 2), control=(1,), end=3, t=(4, 5))
    silent = read(1, 3, offsets=(0, 2), end=3, t=(6, 7))
    assert anomalies(*appends, named, silent) == set()
    assert anomalies(*appends, silent) == {LogAnomaly.SKIPPED_OFFSET}


def test_a_control_batch_is_no_record() -> None:
    history = (append(1, at=0, t=(0, 1)), read(control=(0,), end=1, t=(2, 3)))
    assert anomalies(*history) == {LogAnomaly.INCONSISTENT_OFFSETS}


def test_a_compacted_offset_was_once_filled() -> None:
    history = (append(1, at=0, t=(0, 1)), append(3, at=2, t=(2, 3)))
    skips = read(1, 3, offsets=(0, 2), end=3, t=(4, 5))
    assert anomalies(*history, skips, compacted=True) == {LogAnomaly.HOLE}


def test_partitions_are_logs_of_their_own() -> None:
    history = [append(1, at=0, t=(0, 1), partition=0), append(1, at=0, t=(0, 1), partition=1)]
    assert check_log(history).valid
    stale = read(end=0, t=(2, 3), partition=1)
    evidence = check_log([*history, stale]).evidence
    assert [each.partition for each in evidence] == [1]


# ------------------------------------------------------------------ R2: what was read is real


def test_a_value_that_nobody_appended_is_a_phantom() -> None:
    for model in LogModel:
        assert anomalies(read(7, t=(0, 1)), model=model) == {LogAnomaly.PHANTOM_READ}


def test_a_failed_append_is_never_read() -> None:
    failed = append(1, t=(0, 1), status=Status.FAIL)
    for model in LogModel:
        assert anomalies(failed, read(1, t=(2, 3)), model=model) == {LogAnomaly.ABORTED_READ}


def test_a_value_that_failed_may_be_appended_again() -> None:
    failed = append(1, t=(0, 1), status=Status.FAIL)
    assert anomalies(failed, append(1, at=0, t=(2, 3)), read(1, end=1, t=(4, 5))) == set()


def test_an_append_of_unknown_outcome_may_be_read_and_may_not() -> None:
    unknown = append(1, t=(0, 1), status=Status.INFO)
    assert anomalies(unknown, read(1, end=1, t=(2, 3))) == set()
    assert anomalies(unknown, read(end=0, t=(2, 3))) == set()


def test_a_read_that_did_not_succeed_says_nothing() -> None:
    history = [read(7, t=(0, 1), status=status) for status in (Status.INFO, Status.FAIL)]
    assert anomalies(*history) == set()


# -------------------------------------------------------------------------------- R3: no holes


def test_an_offset_that_nothing_can_have_filled_is_a_hole() -> None:
    for model in (STRICT, PREFIX):
        assert anomalies(append(1, at=1, t=(0, 1)), model=model) == {LogAnomaly.HOLE}


def test_an_append_of_unknown_outcome_fills_a_hole() -> None:
    unknown = append(1, t=(0, 1), status=Status.INFO)
    assert anomalies(unknown, append(2, at=1, t=(0, 1))) == set()


def test_one_append_fills_one_hole() -> None:
    unknown = append(1, t=(0, None))
    assert anomalies(unknown, append(2, at=2, t=(0, 1))) == {LogAnomaly.HOLE}
    assert anomalies(unknown, append(3, t=(0, None)), append(2, at=2, t=(0, 1))) == set()


def test_a_hole_is_filled_before_the_log_was_seen_beyond_it() -> None:
    beyond = append(2, at=1, t=(0, 5))
    assert anomalies(append(1, t=(5, None)), beyond) == set()
    assert anomalies(append(1, t=(6, None)), beyond) == {LogAnomaly.HOLE}


def test_the_high_watermark_shows_holes_at_the_tail() -> None:
    assert anomalies(append(1, at=0, t=(0, 1)), read(1, end=2, t=(2, 3))) == {LogAnomaly.HOLE}


def test_a_wild_high_watermark_is_refuted_at_once() -> None:
    assert anomalies(read(end=1 << 60, t=(0, 1))) == {LogAnomaly.HOLE}


def test_an_append_acknowledged_without_offset_is_somewhere() -> None:
    untold = append(1, t=(0, 1))
    assert anomalies(untold) == set()
    assert anomalies(untold, append(2, at=1, t=(2, 3))) == set()
    assert anomalies(untold, read(end=0, t=(1, 2))) == set()
    assert anomalies(untold, read(end=0, t=(2, 3))) == {LogAnomaly.NO_PLACE}
    assert anomalies(untold, append(2, at=0, t=(2, 3))) == {LogAnomaly.NO_PLACE}


def test_who_can_wait_least_gets_the_hole() -> None:
    """Offset 0 must be the one whose end was seen; the other can still be at the tail."""
    history = (append(1, t=(0, 9)), append(2, t=(0, 1)), read(end=1, t=(2, 3)))
    assert anomalies(*history) == set()


# ------------------------------------------------------------------------ R4: time is respected


def test_a_read_that_starts_after_an_acknowledgement_sees_it() -> None:
    acknowledged = append(1, at=0, t=(0, 5))
    assert anomalies(acknowledged, read(end=0, t=(5, 6))) == set()
    assert anomalies(acknowledged, read(end=0, t=(6, 7))) == {LogAnomaly.STALE_READ}


def test_a_read_that_starts_after_another_sees_no_less() -> None:
    unknown, first = append(1, t=(0, None)), read(1, t=(1, 2))
    assert anomalies(unknown, first, read(end=0, t=(3, 4))) == {LogAnomaly.STALE_READ}


def test_a_read_without_a_high_watermark_may_end_early() -> None:
    assert anomalies(append(1, 2, at=0, t=(0, 1)), read(1, t=(2, 3)), read(t=(4, 5))) == set()


def test_an_empty_read_shows_that_the_log_reached_its_start() -> None:
    assert anomalies(read(start=1, t=(0, 1)), append(1, at=0, t=(2, 3))) == {LogAnomaly.READ_AHEAD}


def test_a_value_is_not_read_before_its_append_is_invoked() -> None:
    for model in LogModel:
        history = (read(1, t=(0, 1)), append(1, at=0, t=(2, 3)))
        assert anomalies(*history, model=model) == {LogAnomaly.READ_AHEAD}


def test_appends_one_after_the_other_are_in_that_order_in_the_log() -> None:
    for model in (STRICT, PREFIX):
        history = (append(1, at=1, t=(0, 1)), append(2, at=0, t=(2, 3)))
        assert anomalies(*history, model=model) == {LogAnomaly.REORDERED_APPEND}


def test_a_batch_may_be_seen_half_written_only_while_it_is_written() -> None:
    batch = append(1, 2, at=0, t=(0, 5))
    assert anomalies(batch, read(1, end=1, t=(3, 4))) == set()
    assert anomalies(batch, read(1, end=1, t=(6, 7))) == {LogAnomaly.STALE_READ}


def test_records_of_others_may_lie_between_those_of_an_append() -> None:
    history = (append(1, 3, offsets=(0, 2), t=(0, 5)), append(2, at=1, t=(0, 5)))
    assert anomalies(*history, read(1, 2, 3, end=3, t=(6, 7))) == set()


# -------------------------------------------------------------------- the models that ask for less


def test_with_committed_prefix_a_read_may_be_stale() -> None:
    history = (append(1, at=0, t=(0, 1)), read(end=0, t=(2, 3)))
    assert anomalies(*history, model=PREFIX) == set()


def test_with_committed_prefix_a_session_never_goes_back() -> None:
    before = (append(1, at=0, t=(0, 1)), read(1, end=1, t=(2, 3)))
    same = read(end=0, t=(4, 5))
    for model in (PREFIX, ACKS1):
        assert anomalies(*before, same, model=model) == {LogAnomaly.SESSION_WENT_BACK}
        assert anomalies(*before, read(end=0, t=(4, 5), session=1), model=model) == set()
        assert anomalies(*before, read(end=0, t=(4, 5), process=1), model=model) == set()
        assert anomalies(*before, read(end=0, t=(3, 5)), model=model) == set()


def test_with_committed_prefix_the_final_read_covers_every_acknowledgement() -> None:
    acknowledged = append(1, 2, at=0, t=(0, 1))
    whole = read(1, 2, t=(2, 3), final=True)
    nothing_more = read(start=2, t=(4, 5), final=True)
    assert anomalies(acknowledged, whole, nothing_more, model=PREFIX) == set()
    cut = (read(1, t=(2, 3), final=True), read(start=1, t=(4, 5), final=True))
    assert anomalies(acknowledged, *cut, model=PREFIX) == {LogAnomaly.LOST_WRITE}
    short = read(1, end=1, t=(2, 3), final=True)
    assert anomalies(acknowledged, short, model=PREFIX) == {LogAnomaly.LOST_WRITE}


@pytest.mark.parametrize(
    "final",
    [
        read(1, t=(2, 3), final=True),
        read(1, end=3, t=(2, 3), final=True),
        read(2, 3, start=1, t=(2, 3), final=True),
    ],
)
def test_final_reads_that_miss_a_part_leave_the_verdict_unknown(final: LogOperation) -> None:
    verdict = check_log([append(1, 2, 3, at=0, t=(0, 1)), final], PREFIX)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.reason is not None
    assert verdict.reason.startswith("t-0: no final read passed value")


def test_with_committed_prefix_a_session_keeps_what_its_final_read_must_have_seen() -> None:
    """The final read was told no end, but the log had two records by then."""
    appends = (append(1, at=0, t=(0, 1)), append(2, at=1, t=(2, 3)))
    final = read(1, t=(4, 5), final=True)
    back = read(end=1, t=(6, 7))
    verdict = check_log([*appends, final, back], PREFIX)
    assert [each.anomaly for each in verdict.evidence] == [LogAnomaly.LOST_WRITE]
    assert verdict.evidence[0].operations == (appends[1], final, back)
    untold = append(3, t=(2, 3))
    assert anomalies(appends[0], untold, final, back, model=PREFIX) == {LogAnomaly.NO_PLACE}
    assert anomalies(*appends, final, read(end=1, t=(5, 7)), model=PREFIX) == set()


def test_final_reads_cover_what_they_pass_together() -> None:
    acknowledged = append(1, 2, 3, at=0, t=(0, 1))
    whole = read(1, 2, 3, t=(2, 3), final=True)
    inner = read(2, start=1, t=(4, 5), final=True)
    assert check_log([acknowledged, whole, inner], PREFIX).valid
    first, rest = read(1, t=(2, 3), final=True), read(2, 3, start=1, t=(4, 5), final=True)
    assert check_log([acknowledged, first, rest], PREFIX).valid
    last = read(3, start=2, t=(4, 5), final=True)
    assert check_log([acknowledged, first, last], PREFIX).validity is Validity.UNKNOWN
    all_but_one = read(1, 2, t=(2, 3), final=True)
    assert check_log([acknowledged, all_but_one], PREFIX).validity is Validity.UNKNOWN


def test_a_record_without_an_offset_that_no_final_read_passed_is_not_covered() -> None:
    verdict = check_log([append(1, t=(0, 1)), read(end=1, t=(2, 3), final=True)], PREFIX)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.reason is not None
    assert verdict.reason.endswith("value 1, acknowledged at an offset not told")


def test_a_final_read_of_control_batches_alone_has_not_found_the_end() -> None:
    history = (
        append(1, at=1, t=(0, 1)),
        read(control=(0,), t=(2, 3), final=True),
        read(1, start=1, t=(4, 5), final=True),
        read(start=2, t=(6, 7), final=True),
    )
    for model in LogModel:
        assert anomalies(*history, model=model) == set()


def test_an_acknowledgement_at_the_moment_of_the_first_final_read_need_not_be_covered() -> None:
    history = [
        append(1, at=0, t=(0, 1)),
        append(2, at=1, t=(1, 2)),
        read(1, t=(2, 3), final=True),
        read(start=1, end=2, t=(4, 5), final=True),
    ]
    assert check_log(history, PREFIX).valid


def test_what_is_acknowledged_during_the_final_reads_need_not_be_covered() -> None:
    history = [append(1, at=0, t=(0, 1)), append(2, at=1, t=(3, 4)), read(1, t=(2, 3), final=True)]
    assert check_log(history, PREFIX).valid


def test_with_acks1_losses_are_counted_and_not_refuted() -> None:
    history = [
        append(1, at=0, t=(0, 1)),
        append(2, at=1, t=(2, 3)),  # overwritten
        append(3, at=1, t=(4, 5)),
        append(4, at=2, t=(6, 7)),  # cut off
        append(5, t=(8, None)),
        read(1, 3, t=(9, 10), final=True),
        read(start=2, t=(11, 12), final=True),
    ]
    verdict = check_log(history, ACKS1)
    assert verdict.valid
    assert (verdict.acknowledged, verdict.lost, verdict.unseen) == (4, 2, 2)


def test_with_acks1_a_record_is_lost_if_a_control_batch_took_its_place() -> None:
    verdict = check_log([append(1, at=0, t=(0, 1)), read(control=(0,), t=(2, 3))], ACKS1)
    assert verdict.valid
    assert verdict.lost == 1


def test_with_acks1_any_final_read_invoked_after_the_acknowledgement_settles_it() -> None:
    late = append(1, at=0, t=(0, 5))
    assert check_log([late, read(t=(5, 6), final=True)], ACKS1).lost == 0
    assert check_log([late, read(t=(6, 7), final=True)], ACKS1).lost == 1
    grown = [append(2, 3, t=(8, None)), read(2, end=2, t=(9, 10), start=0, final=True)]
    assert check_log([late, read(t=(6, 7), final=True), *grown], ACKS1).lost == 1
    other = [append(3, 4, t=(8, None)), read(start=2, end=2, t=(9, 10), final=True)]
    assert check_log([late, read(t=(6, 7), final=True), *other], ACKS1).lost == 1
    assert check_log([late, *other, read(t=(3, 7), final=True)], ACKS1).lost == 0


def test_with_acks1_one_of_two_records_acknowledged_at_an_offset_is_lost() -> None:
    verdict = check_log([append(1, at=0, t=(0, 1)), append(2, at=0, t=(2, 3))], ACKS1)
    assert verdict.valid
    assert (verdict.lost, verdict.unseen) == (1, 2)


def test_with_acks1_a_record_that_nobody_looked_for_is_unseen_and_not_lost() -> None:
    history = [append(1, at=0, t=(0, 1)), read(end=0, t=(2, 3))]
    verdict = check_log(history, ACKS1)
    assert verdict.valid
    assert (verdict.lost, verdict.unseen) == (0, 1)


def test_with_acks1_what_was_read_is_never_taken_back() -> None:
    history = (append(1, at=0, t=(0, 1)), read(1, t=(2, 3)), read(t=(4, 5), final=True, process=1))
    assert anomalies(*history, model=ACKS1) == {LogAnomaly.LOST_WRITE}


# ------------------------------------------------------------------------------- honest limits


def test_values_that_two_appends_share_leave_the_verdict_unknown() -> None:
    verdict = check_log([append(1, at=0, t=(0, 1)), append(1, at=1, t=(2, 3))])
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.reason == "t-0: value 1 is appended twice: values must be unique"


def test_a_refuted_partition_outweighs_one_that_is_unknown() -> None:
    unknown = [append(1, 1, at=0, t=(0, 1), partition=1)]
    verdict = check_log([*unknown, read(7, t=(0, 1))])
    assert verdict.validity is Validity.INVALID
    assert verdict.reason is None


def test_operations_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvariantViolation, match="an offset that is not known is None"):
        append(1, at=-1, t=(0, 1))
    with pytest.raises(InvariantViolation, match="an offset per value"):
        append(1, 2, offsets=(0,), t=(0, 1))
    with pytest.raises(InvariantViolation, match="a read knows its place"):
        read(1, start=None, t=(0, 1))
    with pytest.raises(ValueError, match="not an operation of a log"):
        LogOperation(process=0, f="cas", topic="t", partition=0, status=Status.INFO, t_invoke_ns=0)
