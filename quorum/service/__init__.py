"""The gRPC services of a voter: they translate, and decide nothing."""
