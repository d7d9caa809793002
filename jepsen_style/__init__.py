"""Verification: workloads, faults, checkers and the deterministic simulator of a cluster.

Nothing is here yet. To come: `floodmark verify`, `floodmark check` and `floodmark simulate`.
"""
