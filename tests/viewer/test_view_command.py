"""`qec view` as a user starts and stops it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from aiohttp import ClientSession
from tests.kinds import present
from typer.testing import CliRunner

from qecnet.cli.main import app
from qecnet.viewer.wire import unpack

QEC = Path(sys.executable).with_name("qec")


def start(*arguments, **options):
    command = [QEC, "view", "--port", "0", "--no-browser", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def address_of(process):
    line = process.stdout.readline()
    assert line.startswith("Serving at http://127.0.0.1:"), process.stderr.read()
    return line.split()[2]


async def upload(address):
    """Make the viewer start its reader."""
    async with ClientSession() as session, session.ws_connect(f"{address}/socket", max_msg_size=0) as page:
        key = unpack(await page.receive_bytes())[0]["session"]["key"]
        url = f"{address}/upload/{key}"
        response = await session.post(url, params={"name": "a.xyz"}, data=b"0 0 1\n1 2 3\n4 5 7\n")
        assert (await response.json())["upload"] > 0


def is_empty(group):
    """Whether no process of a group is left, within 20 seconds."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no such signals")
def test_signals_stop_it_with_all_its_processes(tmp_path):
    (tmp_path / "cloud.xyz").write_text("\n".join(f"{i % 7} {i % 11} {i % 3}" for i in range(300)))
    numbers = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    processes = [start(tmp_path / "cloud.xyz", start_new_session=True) for _ in numbers]
    try:
        for process, number in zip(processes, numbers, strict=True):
            address = address_of(process)
            with urllib.request.urlopen(address, timeout=120) as page:
                assert b"<title>qecnet</title>" in page.read()
            if number == signal.SIGHUP:
                asyncio.run(upload(address))
            process.send_signal(number)
        for process in processes:
            assert process.wait(120) == 0, process.stderr.read()
            assert is_empty(process.pid)
            assert process.stderr.read() == ""
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_port_in_use_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["view", "--port", str(port), "--no-browser"])
    assert result.exit_code == 1
    assert result.stderr == f"qec: port {port} is in use; choose another with --port, or a free one with --port 0\n"


def test_an_address_of_another_machine_is_refused():
    result = CliRunner().invoke(app, ["view", "--host", "203.0.113.7", "--no-browser"])
    assert result.exit_code == 1
    assert "cannot listen there" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_invalid_file_is_refused(tmp_path):
    (tmp_path / "bad.off").write_text("OFF\n3 1 0\n0 0 0\n")
    result = CliRunner().invoke(app, ["view", str(tmp_path / "bad.off")])
    assert result.exit_code == 1
    assert "bad.off" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name != "posix", reason="the browser here is a shell script")
def test_a_browser_is_opened(tmp_path):
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    script.chmod(0o755)
    environment = os.environ | {"BROWSER": str(script)}
    command = [str(QEC), "view", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        address = present(process.stdout).readline().split()[2]
        end = time.monotonic() + 30
        while not (tmp_path / "opened").exists() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.2)
        assert (tmp_path / "opened").read_text().strip() == address
    finally:
        process.terminate()
        process.communicate(timeout=30)
