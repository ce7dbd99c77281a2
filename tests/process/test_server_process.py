"""The server as a process of its own: it starts, makes its first key, and stops without losing anything."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

import engram
from engram.cli import serve
from engram.cli.invocation import Invocation
from engram.client import Client
from engram.client.grpc import Client as Dialled
from engram.errors import ConfigError
from engram.server.rest.app import document
from engram.transfer import installation
from engram.transfer.signing import create_key, save_trusted
from engram.wiring import TRUSTED, keyring_folder

SERVE = "import sys; from engram.cli import invocation, serve; serve.command(sys.argv[1:], obj=invocation.Invocation())"


@dataclass
class Running:
    """A server, and what it has said so far."""

    process: subprocess.Popen[str]
    url: str = ""
    token: str = ""
    lines: list[str] = field(default_factory=list)

    def stop(self, sign: int = signal.SIGTERM) -> int:
        self.process.send_signal(sign)
        return self.process.wait(timeout=60)


@contextmanager
def running(db: Path, *options: str) -> Iterator[Running]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, "--port", "0", "--db", str(db), *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ENGRAM_EMBEDDER": "hashing"},
    )
    found = Running(process)
    assert process.stderr is not None
    stream = process.stderr
    try:
        for line in stream:
            found.lines.append(line)
            if line.startswith("eng_"):
                found.token = line.strip()
            if serves := re.match(r"Engram serves on (\S+)", line):
                found.url = serves[1]
                break
        assert found.url, found.lines
        reader = threading.Thread(target=lambda: found.lines.extend(stream), daemon=True)
        reader.start()
        yield found
        if process.poll() is None:
            found.stop()
        reader.join(timeout=10)
    finally:
        process.kill()
        process.wait()
        stream.close()


def test_it_makes_a_key_serves_and_stops_with_everything_that_it_acknowledged(path: Path) -> None:
    with running(path, "--log-format", "json") as server:
        stored, stopping = list[str](), threading.Event()

        def write(number: int) -> None:
            with Client(server.url, server.token, f"writer {number}", timeout=30) as client:
                while not stopping.is_set():
                    try:
                        receipt = client.remember(f"memory {len(stored)} of {number}")
                    except engram.EngramError:
                        return
                    stored.append(receipt.id or "")

        writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for writer in writers:
            writer.start()
        while len(stored) < 60:
            assert server.process.poll() is None, server.lines
            stopping.wait(0.02)
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(timeout=60)
        stopping.set()
        for writer in writers:
            writer.join(timeout=60)
    assert code == 0, server.lines
    with engram.open(path) as brain:
        kept = {memory.id for name in brain.agents() for memory in brain.agent(name).list(limit=10_000)}
    assert set(stored) <= kept
    logged = [json.loads(line) for line in server.lines if line.startswith("{")]
    requests = [line for line in logged if line["message"] == "request"]
    assert len(requests) >= 60
    assert all(line["request_id"] and line["op"] and line["key"] for line in requests)
    assert "memory 1 of" not in "".join(server.lines)


def test_a_request_that_runs_when_it_is_told_to_stop_is_answered(path: Path) -> None:
    with running(path) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        headers = {"Authorization": f"Bearer {server.token}", "Engram-Agent": "alice"}
        texts = {"items": [{"text": f"a rather long text about thing number {n} " * 5} for n in range(1000)]}
        answers: list[httpx.Response] = []

        def ask() -> None:
            answers.append(client.post("/v1/memories/batch", json=texts, headers=headers))

        with httpx.Client(base_url=server.url, timeout=60) as other:

            def seen(asking: threading.Thread) -> bool:
                """Whether the batch was seen to run, before it was done."""
                while asking.is_alive():
                    if "engram_requests_in_progress 2.0" in other.get("/metrics", headers=headers).text:
                        return True
                return False

            for _ in range(10):
                asking = threading.Thread(target=ask)
                asking.start()
                if seen(asking):
                    break
            else:
                pytest.fail("no batch was seen to run")
        assert server.stop() == 0
        asking.join(timeout=60)
        assert [len(answer.json()["receipts"]) for answer in answers] == [1000] * len(answers)
    with engram.open(path) as brain:
        assert len(brain.agent("alice").list(limit=10_000)) == 1000 * len(answers)


def test_an_open_stream_of_events_does_not_keep_it_from_stopping_and_a_second_start_makes_no_key(path: Path) -> None:
    with running(path) as server:
        token, heard = server.token, list[str]()
        with Client(server.url, token, "alice") as client, Client(server.url, token, "alice") as other:

            def listen() -> None:
                heard.extend(event.event for event in client.events(after=0))

            listening = threading.Thread(target=listen)
            listening.start()
            other.remember("news")
            assert server.stop(signal.SIGINT) == 0
            listening.join(timeout=60)
            assert not listening.is_alive()
    assert heard in ([], ["stored"])
    with running(path) as server, Client(server.url, token, "alice") as client:
        assert server.token == ""
        assert [memory.text for memory in client.list()] == ["news"]
        assert not _links(server)


def test_a_link_to_the_dashboard_is_told_with_the_first_key_or_if_it_is_asked_for(path: Path) -> None:
    with running(path) as server:
        assert server.token
        assert server.stop() == 0
    assert len(_links(server)) == 1
    with running(path, "--link") as server:
        assert server.token == ""
        assert server.stop() == 0
    assert len(_links(server)) == 1


def _links(server: Running) -> list[str]:
    return [line for line in server.lines if "token=" in line]


def test_it_says_when_the_port_is_taken_or_the_address_is_not_safe(path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(serve.command, ["--port", port], obj=Invocation(db=str(path)))
        assert isinstance(result.exception, ConfigError)
    result = CliRunner().invoke(serve.command, ["--host", "0.0.0.0"], obj=Invocation(db=str(path)))
    assert isinstance(result.exception, ConfigError)
    assert "--certfile" in str(result.exception)


def test_it_prints_its_document(path: Path) -> None:
    result = CliRunner().invoke(serve.command, ["--openapi"], obj=Invocation(db=str(path)))
    assert json.loads(result.stdout) == document()
    assert not path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="openssl is not at hand there")
def test_it_speaks_tls(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    certificate, key = _certificate(tmp_path)
    with running(path, "--certfile", str(certificate), "--keyfile", str(key)) as server:
        assert server.url.startswith("https://")
        import ssl

        trusted = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(verify=trusted, timeout=60) as client:
            assert client.get(server.url + "/healthz").json() == {"status": "ok"}


def _certificate(folder: Path) -> tuple[Path, Path]:
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, secret


def test_files_that_somebody_trusted_signed_are_known_to_be_theirs_by_every_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    key, file = create_key(tmp_path / "signing.key"), tmp_path / "signed.json"
    with engram.open(tmp_path / "there.db", embedder="hashing") as brain:
        brain.agent("alice").remember("The api is deployed from main")
        brain.agent("alice").knowledge.export(file, sign=key)
        save_trusted(keyring_folder() / TRUSTED, {installation(brain): key.public})
    with running(tmp_path / "here.db", "--grpc", "0") as server:
        with Client(server.url, server.token, "bob") as client:
            assert client.import_knowledge(file.read_bytes()).verification.status == "valid"
        dialled = next(line.split()[-1] for line in server.lines if line.startswith("Engram serves gRPC"))
        with Dialled(dialled, server.token, "carol") as far:
            assert far.import_knowledge(file, dry_run=True).verification.status == "valid"
