"""The sweep against brute force finds something wrong with every mutant of the log checker."""

import inspect
from dataclasses import dataclass
from types import ModuleType

import pytest

from jepsen_style.checkers import log, log_observations, log_order
from tests.jepsen_style.log_sweeps import NO_VERDICT, Check, few_cases, wrong_verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    module: ModuleType
    true: str
    false: str

    def plant(self, patch: pytest.MonkeyPatch) -> Check:
        """The checker, with one line of one module changed."""
        source = inspect.getsource(self.module)
        assert source.count(self.true) == 1, f"{self.name}: the line to change is not there"
        changed: dict[str, object] = {"__name__": self.module.__name__}
        exec(compile(source.replace(self.true, self.false), self.name, "exec"), changed)
        for name in ("Observations", "Order"):
            defined = changed.get(name)
            if inspect.isclass(defined) and hasattr(self.module, name):
                patch.setattr(log, name, defined)
        return log.check_log


def _mutants(module: ModuleType, *lines: tuple[str, str, str]) -> list[Mutant]:
    return [Mutant(name=name, module=module, true=true, false=f) for name, true, f in lines]


OF_THE_ANSWERS = _mutants(
    log_observations,
    ("offsets_may_hold_two_values", "self._torn_offsets.add(offset)", "pass"),
    ("values_may_be_at_two_offsets", "self._torn_values.add(value)", "pass"),
    ("control_batches_may_be_records", "(self.control & self.value_at.keys())", "set()"),
    ("values_may_move_after_an_ack", " | self._moved_values()", ""),
    ("reads_may_go_back", "two <= one for", "two < one for"),
    ("reads_may_begin_before_their_start", "offsets[0] < read.start_offset or any", "any"),
    ("reads_may_pass_the_end_by_one", "each.end_offset > each", "each.end_offset - 1 > each"),
    ("reads_must_end_before_the_end", "each.end_offset > each", "each.end_offset >= each"),
    ("reads_may_skip", "*([] if compacted else self._skipped()),", ""),
    ("compacted_reads_may_not_skip", "[] if compacted else self", "self"),
    ("reads_may_skip_beside_control", "== end - begin", ">= end - begin - 1"),
    ("rule_2_is_left_out", "*self._unwritten(),", ""),
    ("aborted_values_are_fine", "if read_aborted:", "if False:"),
    ("phantoms_are_fine", "        if phantom:", "        if False:"),
    ("failed_appends_may_have_happened", "append.status is Status.FAIL", "False"),
    ("the_end_told_says_nothing", "read.end_offset, read.log_end_seen or 0)", "read.end_offset)"),
    ("the_end_read_says_nothing", "read.end_offset, read.log_end_seen or 0)", "0)"),
)

OF_THE_ORDER = _mutants(
    log_order,
    ("rule_3_is_left_out", "return found or list(self._holes())", "return found"),
    ("rule_4_is_left_out", "if late else []", "if False else []"),
    ("sessions_may_go_back", "returns in self._sessions.values()", "returns in ()"),
    ("equal_times_are_ordered", "][0] < invocation[0]:", "][0] <= invocation[0]:"),
    ("ordered_by_two_ticks_only", "][0] < invocation[0]:", "][0] < invocation[0] - 1:"),
    ("only_the_last_return_counts", "highest = max(highest, returns[done][1])",
     "highest = returns[done][1]"),
    ("stale_by_one_is_fine", "if invocation[1] < highest:", "if invocation[1] < highest - 1:"),
    ("equal_positions_conflict", "if invocation[1] < highest:", "if invocation[1] <= highest:"),
    ("batches_begin_at_their_end", "2 * min(known) + 1", "2 * max(known) + 1"),
    ("batches_end_at_their_beginning", "2 * max(known) + 1", "2 * min(known) + 1"),
    ("appends_begin_one_higher", "2 * min(known) + 1", "2 * min(known) + 2"),
    ("appends_begin_one_lower", "2 * min(known) + 1", "2 * min(known) - 1"),
    ("appends_never_return", "            if binds:\n", "            if False:\n"),
    ("lost_acks_return", "            if binds:\n", "            if told:\n"),
    ("unknown_outcomes_return", "            if binds:\n",
     "            if self._model.acks_bind:\n"),
    ("stale_reads_are_refused", "            if read.f != FINAL_READ:", "            if False:"),
    ("final_reads_may_be_stale", "            if read.f != FINAL_READ:", "            if True:"),
    ("sessions_do_not_bound_final_reads", "if hi == ANYWHERE and later:", "if False:"),
    ("reads_never_return", "        self._returns.append(returned)\n", ""),
    ("reads_without_end_end_where_they_began", "2 * (read.end_offset if", "2 * (0 if"),
    ("reads_without_end_are_at_the_end", "ANYWHERE if end is None else 2 * end, index)",
     "2 * (read.end_offset if end is None else end), index)"),
    ("holes_need_nothing", "            if not waiting:",
     "            if not waiting:\n                continue\n            if not waiting:"),
    ("holes_have_no_deadline", "arriving[next_arrival][0] <= deadline_ns:", "True:"),
    ("deadlines_are_strict", "arriving[next_arrival][0] <= deadline_ns:",
     "arriving[next_arrival][0] < deadline_ns:"),
    ("deadlines_are_a_tick_late", "arriving[next_arrival][0] <= deadline_ns:",
     "arriving[next_arrival][0] <= deadline_ns + 1:"),
    ("deadlines_of_the_offset_before", "first_beyond(2 * offset + 1)",
     "first_beyond(2 * offset - 1)"),
    ("one_record_fills_all_holes", "index = heappop(waiting)", "index = waiting[0]"),
    ("who_can_wait_longest_goes_first", "index = heappop(waiting)",
     "index = waiting.pop(waiting.index(max(waiting)))"),
    ("lost_acks_fill_no_holes", "self._acked_at.get(offset, NEVER) <= deadline_ns", "False"),
    ("lost_acks_fill_holes_at_any_time", "self._acked_at.get(offset, NEVER) <= deadline_ns",
     "offset in self._acked_at"),
    ("acknowledged_records_fit_anywhere", "if last_offset < offset:", "if False:"),
    ("acknowledged_records_fit_one_too_few", "if last_offset < offset:",
     "if last_offset <= offset:"),
    ("acknowledged_records_may_be_left_over", "if last_offset < ANYWHERE:", "if False:"),
    ("unknown_outcomes_may_not_be_left_over", "if last_offset < ANYWHERE:", "if True:"),
    ("acknowledged_without_offset_is_unknown", "_returned(append) if binds else NEVER", "NEVER"),
    ("last_offsets_are_one_too_high", "(bound - 1) // 2", "(bound + 1) // 2"),
    ("last_offsets_are_one_too_low", "(bound - 1) // 2", "(bound - 3) // 2"),
    ("last_offsets_count_equal_times", "bisect_right(times, each.t_return_ns)",
     "bisect_left(times, each.t_return_ns)"),
    ("the_tail_has_no_holes", "yield from range(expected, self._seen.length)", ""),
    ("control_batches_are_holes", "{*self._seen.value_at, *self._seen.control}",
     "self._seen.value_at"),
)  # fmt: skip


@pytest.mark.parametrize("mutant", [*OF_THE_ANSWERS, *OF_THE_ORDER], ids=lambda each: each.name)
def test_mutant_dies(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = wrong_verdicts(few_cases(), mutant.plant(monkeypatch))
    by_verdict = (each for each in wrong if NO_VERDICT not in each)
    assert next(by_verdict, None) is not None
