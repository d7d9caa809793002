"""SaslAuthenticate (key 36): carries SASL tokens (KIP-152).

1 adds the session's lifetime (KIP-368).
"""

from typing import Annotated

from kafka_wire.schema import (
    Bytes,
    Int16,
    Int64,
    Request,
    Response,
    String,
    ignorable,
    message,
    since,
)


@message(api_key=36, versions=(0, 2), flexible_since=2)
class SaslAuthenticateRequest(Request, kw_only=True):
    auth_bytes: Bytes


@message(api_key=36, versions=(0, 2), flexible_since=2)
class SaslAuthenticateResponse(Response, kw_only=True):
    error_code: Int16 = 0
    error_message: String | None = None
    auth_bytes: Bytes
    session_lifetime_ms: Annotated[Int64, since(1), ignorable] = 0
