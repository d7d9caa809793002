"""The commands of `floodmark` that administer a cluster, one module per noun."""
