"""SaslHandshake (key 17): chooses the SASL mechanism.

After version 0 bare tokens follow, after 1 SaslAuthenticate requests (KIP-152).
"""

from kafka_wire.schema import Int16, Request, Response, String, message


@message(api_key=17, versions=(0, 1))
class SaslHandshakeRequest(Request, kw_only=True):
    mechanism: String


@message(api_key=17, versions=(0, 1))
class SaslHandshakeResponse(Response, kw_only=True):
    error_code: Int16 = 0
    mechanisms: list[String]
