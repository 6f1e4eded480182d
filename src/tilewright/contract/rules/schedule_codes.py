"""Which rules does a schedule have to keep, and what fixes a violation? One row per code, as in
`contract.rules.typestate_codes`.

Checked by: tests/contract/schedule/test_schedule_check.py (each code has a schedule that breaks it).
"""

from __future__ import annotations

from tilewright.contract.rules.typestate_codes import Rule

_DERIVED = "derived: a modulo schedule is one iteration repeated at its interval"

SCHEDULE_RULES: dict[str, Rule] = {
    rule.code: rule
    for rule in (
        Rule("SC001", "schedule-incomplete", "a schedule does not place exactly the tasks of its graph",
             "Each task begins once, at a cycle not before 0, in a role that may run it; each buffer has a number of "
             "slots, and the interval is at least one cycle.", _DERIVED,
             "A task is missing, or placed in a role that its graph does not allow.",
             "Place each task of the graph once, in one of its roles."),
        Rule("SC002", "schedule-too-early", "a task begins before what it needs is there",
             "A task begins no earlier than the end of what it depends on, and later by the channel where that ran in "
             "another role.", _DERIVED, "The product begins 200 cycles after a copy of 900.",
             "Delay the task, or move it later by an interval."),
        Rule("SC003", "schedule-unit-overlap", "two tasks occupy one unit at the same time",
             "A unit serves one task at a time, whatever the iterations they belong to.", _DERIVED,
             "Both warpgroups' products begin in the same cycle of the interval.", "Move one of the two."),
        Rule("SC004", "schedule-stream-overlap", "a role would have to issue two tasks at the same time",
             "A role's instructions are issued in one order.", "derived: a warp issues in order",
             "A softmax lies over the issue of a product in the same warpgroup.", "Move one of the two."),
        Rule("SC005", "schedule-slot-overwritten", "a buffer has too few slots for the time its data are needed",
             "A slot is written again only after its last reader has released it.",
             "derived: a bounded buffer is a place whose free slots are tokens",
             "Two slots, and a copy that begins three iterations ahead of its reader.", "Give the buffer more slots."),
        Rule("SC006", "schedule-memory", "the buffers take more shared memory than there is",
             "Slots times bytes, over all buffers, fit the budget; each buffer has as many slots as it may.", _DERIVED,
             "Five slots of 48 KiB.", "Use fewer slots."),
        Rule("SC007", "schedule-registers", "a role holds more values than its registers",
             "At every cycle, the values alive in a role and what it keeps throughout fit its registers, and none "
             "lives for more iterations than the loop is unrolled.", _DERIVED,
             "Two iterations of scores of 64 registers beside an accumulator of 128.",
             "Read the values sooner, or let iterations overlap less."),
        Rule("SC008", "schedule-issue", "the tasks issue more instructions in an iteration than the interval has slots",
             "Instructions of an iteration are at most the interval times what the multiprocessor issues a cycle.",
             "derived: warp schedulers issue one instruction a cycle each", "3000 instructions in 512 cycles of 4.",
             "Lengthen the interval."),
        Rule("SC009", "schedule-deadlock", "tasks wait for one another forever",
             "The events of all iterations, ordered by dependences, by slots and by each role's order, have no cycle.",
             "derived: Commoner, Holt, Even and Pnueli 1971, every cycle of a marked graph carries a token",
             "A dependence of distance 0 from a task's result back to its input.",
             "Give the cycle a token: a distance, or another slot."),
        Rule("SC010", "schedule-certificate", "a certificate does not show what it claims",
             "The bound that a certificate names is recomputed from the graph and equals the interval.", _DERIVED,
             "A certificate of 512 cycles beside an interval of 520.", "Drop the certificate, or fix the schedule."),
    )
}  # fmt: skip
