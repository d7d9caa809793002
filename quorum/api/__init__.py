"""The gRPC interface of the quorum; `python -m quorum.api.generate` makes the modules again."""
