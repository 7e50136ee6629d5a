"""The server as a browser meets it, and as somebody meets it who is no browser."""

import asyncio
import json
from contextlib import asynccontextmanager
from io import BytesIO
from socket import gethostname

import pytest
from aiohttp import WSServerHandshakeError
from aiohttp.test_utils import TestClient, TestServer

from qecnet.datasets import make_shape
from qecnet.formats import write
from qecnet.viewer import server
from qecnet.viewer.reply import Tab
from qecnet.viewer.server import PAGE, Viewer, is_loopback
from qecnet.viewer.wire import unpacked

SPOIL = {"points": 1000, "noise": 0, "outliers": 0, "occlusion": 0, "seed": 0}


def asked(number, **shape):
    turn = [1, 0, 0, 0]
    return json.dumps({"number": number, "shape": {"kind": "chair", "seed": 1, "turn": turn} | shape, "spoil": SPOIL})


@pytest.fixture
def serving(respondent, reader):
    @asynccontextmanager
    async def serve(host="127.0.0.1"):
        app = Viewer(respondent, None, host, reader).app()
        async with TestClient(TestServer(app, host="127.0.0.1")) as client:
            yield client

    return serve


async def heard(socket):
    return unpacked(await socket.receive_bytes(timeout=60))[0]


def test_a_wish_is_answered_and_a_bad_one_stops_nothing(serving):
    async def run():
        async with serving() as client, client.ws_connect("/socket", max_msg_size=0) as socket:
            hello = (await heard(socket))["hello"]
            assert hello["model"] == "modelnet10"
            assert "chair" in hello["gallery"]
            await socket.send_str("{")
            assert "not understood" in (await heard(socket))["trouble"]
            await socket.send_str(asked(2, upload=5))
            reply = await heard(socket)
            assert reply["number"] == 2
            assert "no longer here" in reply["trouble"]
            await socket.send_str(asked(3))
            assert (await heard(socket))["answer"]["label"] == "chair"

    asyncio.run(run())


def test_a_mistake_of_ours_is_told_and_the_page_goes_on(serving, monkeypatch, capsys):
    def broken(tab, wish):
        raise RuntimeError("a wire came loose")

    async def run():
        async with serving() as client, client.ws_connect("/socket", max_msg_size=0) as socket:
            await heard(socket)
            with monkeypatch.context() as patch:
                patch.setattr(Tab, "reply", broken)
                await socket.send_str(asked(1))
                assert "a wire came loose" in (await heard(socket))["trouble"]
            await socket.send_str(asked(2))
            assert (await heard(socket))["answer"]["label"] == "chair"

    asyncio.run(run())
    assert "RuntimeError: a wire came loose" in capsys.readouterr().err


def test_the_newest_wish_overtakes_those_that_wait(serving):
    async def run():
        async with serving() as client, client.ws_connect("/socket", max_msg_size=0) as socket:
            await heard(socket)
            for number in range(1, 30):
                await socket.send_str(asked(number))
            numbers = []
            while not numbers or numbers[-1] != 29:
                numbers.append((await heard(socket))["number"])
            assert numbers == sorted(numbers)
            assert len(numbers) < 10

    asyncio.run(run())


def test_uploads_belong_to_their_tab(serving, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MOST_BYTES", 2**20)
    write(tmp_path / "chair.ply", make_shape("chair", 2))
    good = (tmp_path / "chair.ply").read_bytes()

    async def run():
        async with (
            serving() as client,
            client.ws_connect("/socket", max_msg_size=0) as one,
            client.ws_connect("/socket", max_msg_size=0) as other,
        ):
            tab, _ = [(await heard(socket))["hello"]["tab"] for socket in (one, other)]
            response = await client.post(f"/upload/{tab}", params={"name": "../../chair.ply"}, data=good)
            given = await response.json()
            assert given["name"] == "chair.ply"
            await one.send_str(asked(1, upload=given["upload"]))
            assert (await heard(one))["shape"]["name"] == "chair.ply"
            await other.send_str(asked(1, upload=given["upload"]))
            assert "no longer here" in (await heard(other))["trouble"]
            bad = await client.post(f"/upload/{tab}", params={"name": "bad.off"}, data=b"OFF\n3 1 0\n0 0 0\n")
            assert bad.status == 422
            assert (await bad.json())["trouble"].startswith("bad.off: ")
            stranger = await client.post("/upload/nobody", params={"name": "chair.ply"}, data=good)
            assert stranger.status == 404
            large = await client.post(f"/upload/{tab}", params={"name": "x.xyz"}, data=BytesIO(bytes(2**20 + 1)))
            assert large.status == 413
            assert "larger than 1 MB" in (await large.json())["trouble"]
            await one.send_str(asked(2))
            assert (await heard(one))["answer"]["label"] == "chair"

    asyncio.run(run())


def test_the_page_is_served_and_nothing_beside_it(serving):
    async def run():
        async with serving() as client:
            for path in PAGE.glob("*.*"):
                response = await client.get("/" if path.name == "index.html" else f"/{path.name}")
                assert response.status == (404 if path.suffix == ".txt" else 200), path.name
                if response.status == 200:
                    assert await response.read() == path.read_bytes()
                    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            for path in (
                "/..%2Fserver.py",
                "/../server.py",
                "/%2e%2e%2fwire.py",
                "/page",
                "/main.js%00",
                "/" + 300 * "a" + ".js",
            ):
                assert (await client.get(path)).status == 404, path

    asyncio.run(run())


def test_other_pages_and_names_from_elsewhere_are_turned_away(serving):
    async def run():
        async with serving() as client:
            mine = f"http://{client.host}:{client.port}"
            assert (await client.get("/", headers={"Host": f"localhost:{client.port}"})).status == 200
            assert (await client.get("/", headers={"Host": f"evil.example:{client.port}"})).status == 403
            async with client.ws_connect("/socket", headers={"Origin": mine}) as socket:
                assert "hello" in await heard(socket)
            with pytest.raises(WSServerHandshakeError, match="403"):
                await client.ws_connect("/socket", headers={"Origin": "http://evil.example"})
        async with serving("0.0.0.0") as client:
            for name in ("192.0.2.7", "[2001:db8::7]", "localhost", gethostname()):
                assert (await client.get("/", headers={"Host": f"{name}:80"})).status == 200, name
            # Its owner may point it here, and would then be of our origin.
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


def test_nothing_on_the_page_names_another_host():
    for path in PAGE.iterdir():
        if path.suffix in (".html", ".css", ".js", ".svg"):
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
            assert "http://" not in text, path.name
            assert "https://" not in text, path.name
            assert "@import" not in text, path.name
