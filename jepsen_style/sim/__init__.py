"""The simulator: production code in a world whose time, network and disks are made up by a seed.

One process, one thread, no sleeping: minutes of a cluster's life pass in a fraction of a second,
and a seed tells the same story every time. `world` has the time and the chance, `network` the
links between nodes; each part of the cluster brings its own actors and invariants (`quorum`).
"""
