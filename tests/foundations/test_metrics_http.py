"""Metrics as Prometheus reads them, and the HTTP server against good and bad callers."""

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

from floodmark.addresses import Address
from floodmark.http import (
    MOST_HEAD_BYTES,
    Handler,
    HttpServer,
    Request,
    Response,
    standard_routes,
)
from floodmark.metrics import Histogram, Metrics

T = TypeVar("T")

DEADLINE_S = 20.0


def samples(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


# ----------------------------------------------------------------------------------------- metrics


def test_numbers_are_read_when_the_page_is_made() -> None:
    class Broker:
        bytes_in = 0

    broker = Broker()
    sizes: dict[tuple[str, ...], float] = {("a", "0"): 5.0}
    metrics = Metrics(process=False)
    name = "kafka_server_brokertopicmetrics_bytesin_total"
    metrics.counter(name, "Bytes.", lambda: broker.bytes_in)
    metrics.gauges("kafka_log_log_size", "Size.", lambda: sizes, labels=("topic", "zone"))
    assert samples(metrics)[name, ()] == 0
    broker.bytes_in += 7
    sizes[("b", "1")] = 2
    found = samples(metrics)
    assert found[name, ()] == 7
    assert found["kafka_log_log_size", ("a", "0")] == 5
    assert found["kafka_log_log_size", ("b", "1")] == 2


def test_types_and_help_are_told() -> None:
    metrics = Metrics(process=False)
    metrics.counter("things_total", "Some things.", lambda: 1)
    metrics.gauge("depth", "How deep.", lambda: 2)
    metrics.counters("by_total", "By.", lambda: {("x",): 3}, labels=("kind",))
    page = metrics.exposition().decode()
    assert "# HELP things_total Some things.\n# TYPE things_total counter\nthings_total 1.0" in page
    assert "# TYPE depth gauge\ndepth 2.0" in page
    assert 'by_total{kind="x"} 3.0' in page


def test_a_gauge_with_nothing_to_tell_has_no_sample() -> None:
    metrics = Metrics(process=False)
    metrics.gauge("current_leader", "Who.", lambda: None)
    assert ("current_leader", ()) not in samples(metrics)


def test_a_histogram_counts_what_is_at_most_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    metrics = Metrics(process=False)
    metrics.histogram("latency", "Time.", histogram)
    for value in (0.5, 1.0, 1.5, 2.0, 99.0):
        histogram.observe(value)
    found = samples(metrics)
    assert [found["latency_bucket", (bound,)] for bound in ("1.0", "2.0", "+Inf")] == [2, 4, 5]
    assert found["latency_count", ()] == histogram.count == 5
    assert found["latency_sum", ()] == histogram.sum == 104


@pytest.mark.parametrize("bounds", [(), (1.0, 1.0), (2.0, 1.0)])
def test_bounds_that_do_not_rise_are_refused(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must rise"):
        Histogram(bounds)


def test_a_metric_that_cannot_be_read_is_counted_and_logged_and_hides_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics(process=False)
    metrics.gauge("broken", "Broken.", lambda: 1 / 0)
    metrics.gauge("whole", "Whole.", lambda: 1)
    found = samples(metrics)
    assert found["whole", ()] == 1
    assert found["floodmark_metrics_read_errors_total", ()] == 1
    assert "metric broken cannot be read" in caplog.text


def test_label_values_of_anybody_cannot_break_the_page() -> None:
    metrics = Metrics(process=False)
    evil = 'a"} 1\nforged 2\\'
    metrics.gauges("topics", "T.", lambda: {(evil,): 1}, labels=("topic",))
    found = samples(metrics)
    assert found["topics", (evil,)] == 1
    assert ("forged", ()) not in found


def test_names_are_used_once_and_must_be_names() -> None:
    metrics = Metrics(process=False)
    metrics.gauge("a", "A.", lambda: 1)
    with pytest.raises(ValueError, match="already"):
        metrics.gauge("a", "A.", lambda: 1)
    with pytest.raises(ValueError, match="must end in _total"):
        metrics.counter("b", "B.", lambda: 1)
    with pytest.raises(ValueError, match="no name of a metric"):
        metrics.gauge("not a name", "C.", lambda: 1)


def test_the_process_is_measured_too() -> None:
    assert samples(Metrics())["process_resident_memory_bytes", ()] > 1_000_000


# -------------------------------------------------------------------------------------------- http


def echo(request: Request) -> Response:
    return Response(body=json.dumps([request.method, request.path, dict(request.query)]).encode())


async def fails(request: Request) -> Response:
    raise RuntimeError("a bug")


async def never(request: Request) -> Response:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


ROUTES: dict[str, Handler] = {"/echo": echo, "/tree/": echo, "/fails": fails, "/never": never}


def served(body: Callable[[HttpServer, int], Awaitable[T]], server: HttpServer | None = None) -> T:
    """Runs the body against a server that is stopped afterwards."""
    found = server or HttpServer(ROUTES)

    async def run() -> T:
        async with asyncio.timeout(DEADLINE_S):
            address = await found.start(Address("127.0.0.1", 0))
            try:
                return await body(found, address.port)
            finally:
                await found.stop()

    return asyncio.run(run())


async def exchange(port: int, data: bytes) -> bytes:
    """All that the server says to these bytes, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


def request(path: str, *, method: str = "GET", more: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n".encode()


def answer_to(data: bytes, server: HttpServer | None = None) -> tuple[int, dict[str, str], bytes]:
    answer = served(lambda _, port: exchange(port, data), server)
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


def test_get_answers_with_path_and_query() -> None:
    status, headers, body = answer_to(request("/echo?a=1&b=%20x&c"))
    assert status == 200
    assert json.loads(body) == ["GET", "/echo", {"a": "1", "b": " x", "c": ""}]
    assert headers["Content-Length"] == str(len(body))
    assert headers["Connection"] == "close"


def test_head_answers_the_same_head_without_the_body() -> None:
    status, headers, body = answer_to(request("/echo", method="HEAD"))
    assert (status, body) == (200, b"")
    assert headers["Content-Length"] == str(len(b'["HEAD", "/echo", {}]'))


def test_a_route_with_a_slash_serves_what_is_below() -> None:
    assert json.loads(answer_to(request("/tree/a/b"))[2])[1] == "/tree/a/b"
    assert answer_to(request("/tree/"))[0] == 200
    assert answer_to(request("/echo/below"))[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_other_methods_are_405_where_there_is_something_and_404_where_not(method: str) -> None:
    status, headers, _ = answer_to(request("/echo", method=method))
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert answer_to(request("/nothing", method=method))[0] == 404


def test_a_post_with_a_body_is_answered_once_and_its_body_is_no_request() -> None:
    inner = request("/echo")
    data = (
        f"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {len(inner)}\r\n\r\n".encode() + inner
    )
    answer = served(lambda _, port: exchange(port, data))
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"garbage\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"GET /echo\r\n\r\n", 400),
        (b"GET /echo HTTP/1.1\r\n\r\n", 400),
        (b"GET echo HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET http://[/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /echo HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n", 400),
        (b"GET /echo HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET /echo HTTP/1.1\r\nHost: x\r\n folded: x\r\n\r\n", 400),
        (b"GET /echo HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"GET /" + b"a" * MOST_HEAD_BYTES + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 300_000, 431),
        (b"GET /../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"GET http://host/echo HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_bad_requests_are_told_and_closed(data: bytes, status: int) -> None:
    assert answer_to(data)[0] == status


def test_a_handler_that_fails_is_500_and_the_server_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(_: HttpServer, port: int) -> list[bytes]:
        return [await exchange(port, request(path)) for path in ("/fails", "/echo")]

    failed, fine = served(body)
    assert failed.startswith(b"HTTP/1.1 500 ")
    assert b"a bug" not in failed.replace(b"this is a bug", b"")
    assert fine.startswith(b"HTTP/1.1 200 ")
    assert "RuntimeError: a bug" in caplog.text


def test_a_handler_that_takes_too_long_is_503() -> None:
    assert answer_to(request("/never"), HttpServer(ROUTES, answer_timeout_s=0.01))[0] == 503


def test_a_head_that_takes_too_long_is_408() -> None:
    assert answer_to(b"GET / HT", HttpServer(ROUTES, head_timeout_s=0.01))[0] == 408


def test_a_connection_that_asks_nothing_is_closed_without_a_word() -> None:
    server = HttpServer(ROUTES, idle_timeout_s=0.01)
    assert served(lambda _, port: exchange(port, b""), server) == b""


def test_a_connection_serves_many_requests_even_if_sent_at_once() -> None:
    keep = b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = served(lambda _, port: exchange(port, keep * 3 + request("/echo")))
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert answer.count(b"Connection: keep-alive") == 3


def test_an_http_1_0_connection_is_closed_after_its_answer() -> None:
    answer = served(lambda _, port: exchange(port, b"GET /echo HTTP/1.0\r\n\r\n"))
    assert b"Connection: close" in answer


def test_connections_beyond_the_limit_are_503() -> None:
    async def body(_: HttpServer, port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")  # so the first connection is known to be there
        second = await exchange(port, request("/echo"))
        writer.close()
        return second

    assert served(body, HttpServer(ROUTES, most_connections=1)).startswith(b"HTTP/1.1 503 ")


def test_stopping_answers_what_is_asked_and_closes_what_is_idle() -> None:
    async def run() -> None:
        started, release = asyncio.Event(), asyncio.Event()

        async def slow(_: Request) -> Response:
            started.set()
            await release.wait()
            return Response(body=b"done")

        server = HttpServer({"/slow": slow, "/echo": echo})
        port = (await server.start(Address("127.0.0.1", 0))).port
        idle_reader, idle = await asyncio.open_connection("127.0.0.1", port)
        idle.write(b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n")
        await idle_reader.readuntil(b"{}]")
        asked = asyncio.create_task(exchange(port, b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"))
        await started.wait()
        stopping = asyncio.create_task(server.stop())
        assert await idle_reader.read() == b""
        assert not stopping.done()
        release.set()
        answer = await asked
        await stopping
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"Connection: close" in answer
        assert answer.endswith(b"done")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        idle.close()

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await run()

    asyncio.run(bounded())


def test_stopping_does_not_wait_for_ever() -> None:
    async def body(server: HttpServer, port: int) -> bytes:
        asked = asyncio.create_task(exchange(port, request("/never")))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")  # by now the first request is at work
        await server.stop(timeout_s=0.01)
        writer.close()
        return await asked

    assert served(body) == b""


# -------------------------------------------------------------------------------- standard routes


def test_health_is_ok_while_ready_says_why_not() -> None:
    reasons: list[str | None] = ["no leader", None]
    routes = standard_routes(Metrics(process=False), lambda: reasons[0])
    status, headers, body = answer_to(request("/ready"), HttpServer(routes))
    assert (status, headers["Content-Type"]) == (503, "application/json")
    assert json.loads(body) == {"status": "not ready", "reason": "no leader"}
    assert answer_to(request("/health"), HttpServer(routes))[0] == 200
    del reasons[0]
    status, _, body = answer_to(request("/ready"), HttpServer(routes))
    assert (status, json.loads(body)) == (200, {"status": "ready"})


def test_metrics_are_served_in_prometheus_text_format() -> None:
    metrics = Metrics(process=False)
    metrics.gauge("depth", "How deep.", lambda: 2)
    _, headers, body = answer_to(request("/metrics"), HttpServer(standard_routes(metrics, str)))
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b"\ndepth 2.0\n" in body


def test_the_server_speaks_tls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "asyncio")
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def run() -> bytes:
        server = HttpServer(ROUTES)
        port = (await server.start(Address("127.0.0.1", 0), context)).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        writer.write(request("/echo"))
        answer = await reader.read()
        writer.close()
        await server.stop()
        return answer

    assert asyncio.run(run()).startswith(b"HTTP/1.1 200 ")
