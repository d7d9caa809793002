"""Verification: is what the clients were told possible, if the promises hold?

`operations` is what a client did and was told. `checkers` judge a history of operations: valid,
invalid with evidence, or unknown; today that of registers (read, write, compare-and-set), and
they read the histories of other tools. `sim` runs production code in a world made up by a seed;
today that of the quorum. To come: workloads, faults, the checkers of logs, and the commands
`floodmark verify`, `floodmark check` and `floodmark simulate`.
"""
