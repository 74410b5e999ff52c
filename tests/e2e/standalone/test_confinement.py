"""What a job can reach of the `fairlead up` that runs it, and what `up` says where that is much."""

import json
import subprocess
from pathlib import Path

import httpx2
import pytest

from fairlead_executor.confinement.choice import choose
from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation
from tests.e2e.commands import COMMAND

ATTACK = """
import json, os, signal, socket, sys
data, web, pids, ports = json.loads(sys.argv[1])
opened = []
def attempt(what, action):
    try:
        if action() is not False:
            opened.append(what)
    except OSError:
        pass
for name in ("token", "secrets.json", "lock", "sign-in", "valkey/valkey.conf", "logs/web.log"):
    attempt("read " + name, lambda: open(f"{data}/{name}").read())
attempt("list", lambda: os.listdir(data) not in ([], ["executor"]))
for name, pid in pids.items():
    for file in ("environ", "mem", "maps"):
        attempt(f"{file} of {name}", lambda: open(f"/proc/{pid}/{file}", "rb").read(1))
    attempt("files of " + name, lambda: os.readlink(f"/proc/{pid}/fd/0"))
    if "signals" in sys.argv:
        attempt("signal " + name, lambda: os.kill(pid, 0))
def ask(port, request, good):
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(request)
        return good in connection.recv(4096)
attempt("valkey", lambda: ask(ports["valkey"], b"KEYS *\\r\\n", b"*"))
startup = b"user\\0fairlead\\0database\\0postgres\\0\\0"
startup = (len(startup) + 8).to_bytes(4, "big") + (196608).to_bytes(4, "big") + startup
attempt("postgres", lambda: ask(ports["postgres"], startup, b"R\\0\\0\\0\\x08\\0\\0\\0\\0"))
request = b"GET /api/v1/tokens HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n" % web
attempt("the API", lambda: ask(web, request, b"200 OK"))
print(json.dumps(opened))
"""


def run(standalone: StandaloneInstallation, *words: str) -> str:
    """The output of a job, run through the command line."""
    done = subprocess.run(
        [COMMAND, "run", "--", *words],
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": "/nonexistent",
            "FAIRLEAD_DATA": str(standalone.data),
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=standalone.data.parent,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{standalone.report}"
    return done.stdout


def port_of(standalone: StandaloneInstallation, name: str) -> int:
    """Where a server of the installation listens."""
    return min(
        connection.laddr.port
        for connection in standalone.child(name).net_connections("tcp")
        if connection.status == "LISTEN"
    )


def test_a_job_cannot_access_the_installation(tmp_path: Path) -> None:
    choice = choose("auto", tmp_path)
    if not choice.confines:
        pytest.skip(f"NOT TESTED: jobs cannot be confined on this machine: {choice.why}")
    with StandaloneInstallation(
        tmp_path, environment=PYTHON_ENGINE, shared_unconfined=False
    ) as standalone:
        standalone.start()
        names = ("postgres", "valkey", "web", "scheduler", "executor")
        pids = {name: standalone.child(name).pid for name in names}
        pids["supervisor"] = standalone.supervisor.pid
        ports = {name: port_of(standalone, name) for name in ("postgres", "valkey")}
        arguments = json.dumps([str(standalone.data), standalone.port, pids, ports])
        signals = ["signals"] if choice.abi >= 6 else []
        output = run(standalone, "/usr/bin/env", "python3", "-c", ATTACK, arguments, *signals)
        assert json.loads(output) == []
        assert "not confined" not in standalone.printed
        mine = {"Authorization": f"Bearer {standalone.token}"}
        wanted = {"name": "ci", "roles": ["submitter"], "queues": ["default"]}
        made = httpx2.post(f"{standalone.address}/api/v1/tokens", json=wanted, headers=mine)
        assert made.status_code == 201


def test_tokens_for_others_are_refused_without_confinement(tmp_path: Path) -> None:
    off = {**PYTHON_ENGINE, "FAIRLEAD_CONFINEMENT": "off"}
    with StandaloneInstallation(tmp_path, environment=off, shared_unconfined=False) as standalone:
        standalone.start()
        assert "Jobs are not confined (it is switched off" in standalone.printed
        assert "Tokens for other users are refused" in standalone.printed
        assert run(standalone, "cat", str(standalone.data / "token")).strip() == standalone.token
        mine = {"Authorization": f"Bearer {standalone.token}"}

        def status(**wanted: object) -> int:
            url = f"{standalone.address}/api/v1/tokens"
            return httpx2.post(url, json=wanted, headers=mine).status_code

        assert status(name="ci", roles=["submitter"], queues=["default"]) == 403
        assert status(roles=["submitter"], queues=["default"]) == 403
        assert status(roles=["viewer"]) == 201
        assert status(roles=["admin"], label="second") == 201
