"""Short sessions of other people's clients with a broker, one module per client.

A session is a function of the broker's address; when it returns, the client is closed.
"""

TOPIC = "events"
GROUP = "readers"
TRANSACTIONAL_ID = "payments"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 10.0

KEY = b"key"
HEADERS = [("trace", b"\x00\xff"), ("empty", b""), ("trace", b"again")]
VALUES = [b"first " * 50, b"", "gr\u00fc\u00dfe".encode()]
"""What a session produces in each round, all of it with `KEY` and `HEADERS`."""
