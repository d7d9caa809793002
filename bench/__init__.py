"""Benchmarks: each module with a `main()` compares us with peers; `python -m bench` runs all."""
