"""The application as a browser uses it, and as a hostile client does."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from io import BytesIO

import pytest
from aiohttp import ClientSession, ClientTimeout, WSMsgType, WSServerHandshakeError

from qecnet.datasets import make_shape
from qecnet.formats import write
from qecnet.viewer.app import PAGE, ViewerApp, is_loopback
from qecnet.viewer.connections import listen
from qecnet.viewer.limits import Limits
from qecnet.viewer.serve import bind
from qecnet.viewer.session import Session
from qecnet.viewer.wire import unpack

CORRUPTION = {"points": 1000, "noise": 0, "outliers": 0, "occlusion": 0, "seed": 0}
POINTS = b"0 0 1\n1 2 3\n4 5 7\n"


def message(number, **shape):
    source = shape or {"kind": "chair", "seed": 1}
    return json.dumps({"id": number, "shape": source | {"rotation": [1, 0, 0, 0]}, "corruption": CORRUPTION})


@pytest.fixture
def serving(pool, reader):
    @asynccontextmanager
    async def serve(host="127.0.0.1", **limits):
        app = ViewerApp(pool, None, host, reader, Limits(**limits))
        listening = bind("127.0.0.1", 0)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with (
            listen(app.application(), app.gate, listening, app.limits),
            ClientSession(address, timeout=ClientTimeout(60)) as client,
        ):
            yield client

    return serve


@asynccontextmanager
async def connect(client, **options):
    async with client.ws_connect("/socket", max_msg_size=0, **options) as page:
        yield page, (await receive(page))["session"]["key"]


async def receive(page):
    return unpack(await page.receive_bytes(timeout=60))[0]


async def upload(client, key, name="a.xyz", data=POINTS, **options):
    async with client.post(f"/upload/{key}", params={"name": name}, data=data, **options) as response:
        return response.status, await response.json()


def port_of(client):
    return client._base_url.port


@asynccontextmanager
async def raw(client, data=b""):
    """A connection that sends exactly these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(client))
    writer.write(data)
    try:
        yield reader, writer
    finally:
        writer.close()


def slow_upload(key, size=1000):
    """The headers of an upload, and the first byte of its body."""
    return f"POST /upload/{key}?name=a.xyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n0".encode()


def test_an_invalid_request_does_not_affect_the_next(serving):
    async def run():
        async with serving() as client, connect(client) as (page, _):
            await page.send_str("{")
            assert "not valid JSON" in (await receive(page))["error"]
            await page.send_str(message(2, upload=5))
            response = await receive(page)
            assert response["id"] == 2
            assert "upload it again" in response["error"]
            await page.send_str(message(3))
            assert (await receive(page))["answer"]["label"] == "chair"

    asyncio.run(run())


def test_a_failure_of_the_viewer_does_not_affect_the_next_request(serving, monkeypatch, capsys):
    def fail(session, request):
        raise RuntimeError("a test")

    async def run():
        async with serving() as client, connect(client) as (page, _):
            with monkeypatch.context() as patch:
                patch.setattr(Session, "respond", fail)
                await page.send_str(message(1))
                assert "RuntimeError: a test" in (await receive(page))["error"]
            await page.send_str(message(2))
            assert (await receive(page))["answer"]["label"] == "chair"

    asyncio.run(run())
    assert "RuntimeError: a test" in capsys.readouterr().err


def test_the_newest_request_replaces_those_that_wait(serving):
    async def run():
        async with serving() as client, connect(client) as (page, _):
            for number in range(1, 30):
                await page.send_str(message(number))
            numbers: list[int] = []
            while not numbers or numbers[-1] != 29:
                numbers.append((await receive(page))["id"])
            assert numbers == sorted(numbers)
            assert len(numbers) < 10

    asyncio.run(run())


def test_uploads_belong_to_their_session(serving, tmp_path):
    write(tmp_path / "chair.ply", make_shape("chair", 2))
    chair = (tmp_path / "chair.ply").read_bytes()

    async def run():
        async with serving() as client, connect(client) as (one, key), connect(client) as (other, _):
            status, result = await upload(client, key, "../../chair.ply", chair)
            assert (status, result["name"]) == (200, "chair.ply")
            await one.send_str(message(1, upload=result["upload"]))
            assert (await receive(one))["shape"]["name"] == "chair.ply"
            await other.send_str(message(1, upload=result["upload"]))
            assert "upload it again" in (await receive(other))["error"]

    asyncio.run(run())


def test_a_bad_upload_is_refused_in_a_sentence(serving):
    async def chunks():
        yield POINTS

    async def run():
        async with serving(upload_bytes=2**20) as client, connect(client) as (page, key):
            for given, status, sentence in (
                ({"name": "bad.off", "data": b"OFF\n3 1 0\n0 0 0\n"}, 422, "bad.off: "),
                ({"data": BytesIO(bytes(2**20 + 1))}, 413, "larger than 1 MB"),
                ({"data": chunks()}, 411, "size of the file"),
            ):
                assert (found := await upload(client, key, **given))[0] == status
                assert sentence in found[1]["error"]
            assert (await upload(client, "nobody"))[0] == 404
            await page.send_str(message(2))
            assert (await receive(page))["answer"]["label"] == "chair"

    asyncio.run(run())


def test_uploads_share_a_limited_memory(serving):
    async def run():
        async with serving(receiving_bytes=1000, waiting_seconds=0.3) as client, connect(client) as (_, key):
            async with raw(client, slow_upload(key)):
                await asyncio.sleep(0.1)
                status, result = await upload(client, key)
                assert (status, result["error"]) == (503, "the viewer is busy with other uploads; try again later")
            assert (await upload(client, key))[0] == 200

    asyncio.run(run())


def test_all_sessions_together_keep_a_limited_memory(serving):
    async def run():
        async with serving(stored_bytes=100) as client, connect(client) as (_, one), connect(client) as (_, other):
            assert (await upload(client, one))[0] == 200
            status, result = await upload(client, other)
            assert status == 503
            assert "no memory left" in result["error"]

    asyncio.run(run())


def test_uploads_of_a_closed_session_are_removed(serving):
    async def run():
        async with serving(stored_bytes=100) as client:
            for _ in range(2):
                async with connect(client) as (_, key):
                    assert (await upload(client, key))[0] == 200
                await asyncio.sleep(0.2)

    asyncio.run(run())


def test_a_slow_upload_is_refused(serving):
    async def run():
        async with (
            serving(body_seconds=0.3) as client,
            connect(client) as (_, key),
            raw(client, slow_upload(key)) as (reader, _),
        ):
            assert b"408" in await asyncio.wait_for(reader.readline(), 10)

    asyncio.run(run())


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("data", [b"", GET, GET + b"\r\n" + GET], ids=["nothing", "half", "one and a half"])
def test_a_connection_that_sends_no_request_in_time_is_closed(serving, data):
    async def run():
        async with serving(header_seconds=0.5) as client, raw(client, data) as (reader, _):
            await asyncio.wait_for(reader.read(), 10)

    asyncio.run(run())


@pytest.mark.parametrize("limit", ["connections", "connections_per_address"])
def test_the_number_of_connections_is_limited(serving, limit):
    async def run():
        async with serving(**{limit: 3}) as client:
            async with raw(client), raw(client), raw(client), client.get("/") as response:
                assert response.status == 503
                assert "too many open connections" in (await response.json())["error"]
            await asyncio.sleep(0.1)
            async with client.get("/") as response:
                assert response.status == 200

    asyncio.run(run())


def test_a_refused_connection_that_sends_nothing_is_closed(serving):
    async def run():
        async with serving(connections=0) as client, raw(client) as (reader, _):
            assert await asyncio.wait_for(reader.read(), 10) == b""

    asyncio.run(run())


def test_the_number_of_sessions_is_limited(serving):
    async def run():
        async with serving(sessions=1) as client:
            async with connect(client), client.ws_connect("/socket") as refused:
                assert (await refused.receive(timeout=10)).type is WSMsgType.CLOSE
                assert refused.close_code == 4001
            await asyncio.sleep(0.1)
            async with connect(client):
                pass

    asyncio.run(run())


def test_an_idle_session_ends(serving):
    async def run():
        async with serving(idle_seconds=0.3) as client, connect(client) as (page, _):
            assert (await page.receive(timeout=10)).type is WSMsgType.CLOSE
            assert page.close_code == 4002

    asyncio.run(run())


def test_a_client_that_reads_no_responses_is_disconnected(serving, monkeypatch):
    """What it does not read would be kept in memory."""
    handshake = (
        b"GET /socket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    monkeypatch.setattr(Session, "respond", lambda *_: bytes(2**25))

    async def run():
        data = handshake + mask(message(1).encode())
        async with serving(send_seconds=0.5) as client, raw(client, data) as (_, writer):
            writer.transport.pause_reading()
            for _ in range(100):
                await asyncio.sleep(0.1)
                writer.write(mask(b"{"))
                if writer.transport.is_closing():
                    return
            raise AssertionError("it is still connected")

    asyncio.run(run())


def mask(data):
    """A text frame of a client, whose mask changes nothing."""
    return bytes([0x81, 0x80 | 126]) + len(data).to_bytes(2, "big") + bytes(4) + data


def test_only_the_files_of_the_page_are_served(serving):
    async def run():
        async with serving() as client:
            for file in PAGE.glob("*.*"):
                response = await client.get("/" if file.name == "index.html" else f"/{file.name}")
                assert response.status == (404 if file.suffix == ".txt" else 200), file.name
                if response.status == 200:
                    assert await response.read() == file.read_bytes()
                    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            for path in ("/..%2Fapp.py", "/../app.py", "/%2e%2e%2fwire.py", "/page", "/main.js%00", f"/{300 * 'a'}.js"):
                assert (await client.get(path)).status == 404, path

    asyncio.run(run())


def test_other_origins_and_names_are_refused(serving):
    async def run():
        async with serving() as client:
            own = f"http://127.0.0.1:{port_of(client)}"
            assert (await client.get("/", headers={"Host": f"localhost:{port_of(client)}"})).status == 200
            assert (await client.get("/", headers={"Host": f"evil.example:{port_of(client)}"})).status == 403
            async with connect(client, headers={"Origin": own}):
                pass
            with pytest.raises(WSServerHandshakeError, match="403"):
                await client.ws_connect("/socket", headers={"Origin": "http://evil.example"})
        async with serving("0.0.0.0") as client:
            for name in ("192.0.2.7", "[2001:db8::7]", "localhost", socket.gethostname()):
                assert (await client.get("/", headers={"Host": f"{name}:80"})).status == 200, name
            # Its owner could point it at this machine, and its pages would then be of our origin.
            assert (await client.get("/", headers={"Host": "evil.example:80"})).status == 403
        async with serving("scanner.example") as client:
            assert (await client.get("/", headers={"Host": "Scanner.example:80"})).status == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("localhost", True), ("[::1]", True), ("::1", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_loopback(host, expected):
    assert is_loopback(host) is expected


def test_the_page_names_no_other_host():
    for path in PAGE.iterdir():
        if path.suffix in (".html", ".css", ".js", ".svg"):
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
            assert not any(word in text for word in ("http://", "https://", "@import")), path.name
