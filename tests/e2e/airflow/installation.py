"""A real Airflow for tests: API server, scheduler and triggerer, on a Postgres database.

There is no DAG processor: the files of DAGs are parsed once, before the start.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, Self
from urllib.parse import quote, urlsplit

from fairlead_standalone.processes.child_process import Command, read_tail, spawn
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.service.testing import StandaloneInstallation, wait_for
from tests import airflow_environment

ROOT: Final = Path(__file__).parents[3]
STARTED_S_MAX: Final = 240.0
ANSWER_S_MAX: Final = 60.0
RUN_S_MAX: Final = 300.0
POLL_S: Final = 0.5
"""Each request costs Airflow's API server some milliseconds."""
SECRET: Final = "a" * 64
USER: Final = "fairlead"
PASSWORD: Final = "sesame"
FERNET_KEY: Final = base64.urlsafe_b64encode(bytes(32)).decode()
PREPARE: Final = """
from airflow.cli.cli_parser import get_parser
for words in (["db", "migrate"], ["dags", "reserialize"]):
    arguments = get_parser().parse_args(words)
    arguments.func(arguments)
from airflow.models.errors import ParseImportError
from airflow.utils.session import create_session
with create_session() as session:
    errors = [error.stacktrace for error in session.query(ParseImportError)]
assert not errors, errors[0]
"""


class AirflowInstallation:
    """The processes of one Airflow. `with` kills them in the end."""

    def __init__(self, folder: Path, database: str, fairlead: StandaloneInstallation) -> None:
        self._folder = folder
        self._python = airflow_environment.find()
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._environment = self._make_environment(database, fairlead)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._outputs: list[IO[bytes]] = []
        self._token = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            _kill_group(process)
        for output in self._outputs:
            output.close()

    def install_dags(self, folder: Path) -> None:
        """Add the DAGs of this folder; before the start."""
        shutil.copytree(folder, self._folder / "dags", dirs_exist_ok=True)

    def start(self) -> None:
        """Install the provider, make the tables, start everything and wait until it answers."""
        self._install_provider()
        (self._folder / "passwords.json").write_text(json.dumps({USER: PASSWORD}))
        self._run(str(self._python), "-c", PREPARE)
        for name in ("api-server", "scheduler", "triggerer"):
            self.start_process(name)
        wait_for(self._is_healthy, STARTED_S_MAX, POLL_S)

    def start_process(self, name: str) -> None:
        """Start one of Airflow's processes; it is not awaited."""
        output = (self._folder / f"{name}.log").open("ab")
        self._outputs.append(output)
        argv = (str(self._python), "-m", "airflow", name)
        self._processes[name] = spawn(
            Command(argv=argv, env=self._environment, cwd=self._folder), output
        )

    def kill_triggerer(self) -> None:
        """`kill -9` of the triggerer and of the process in which its triggers run."""
        _kill_group(self._processes["triggerer"])

    @contextlib.contextmanager
    def frozen_triggerer(self) -> Iterator[None]:
        """Freezes the process that tells triggers what Airflow wants, not the triggers."""
        pid = self._processes["triggerer"].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def read_logs(self, dag_id: str, run_id: str) -> str:
        """The logs of all tasks of a run, as they are on disk."""
        folder = self._folder / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}"
        return "".join(file.read_text() for file in folder.rglob("*.log"))

    @property
    def report(self) -> str:
        """The ends of the processes' logs, for a failed test."""
        names = ("api-server", "scheduler", "triggerer")
        return "\n\n".join(
            f"{name}:\n{read_tail(self._folder / f'{name}.log', 40)}" for name in names
        )

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The answer of Airflow's API."""
        request = urllib.request.Request(
            f"{self.url}/api/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "authorization": f"Bearer {self._read_token()}",
                "content-type": "application/json",
                "accept": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as response:
            return json.load(response)

    def _read_token(self) -> str:
        if not self._token:
            request = urllib.request.Request(
                f"{self.url}/auth/token",
                data=json.dumps({"username": USER, "password": PASSWORD}).encode(),
                headers={"content-type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as answer:
                self._token = json.load(answer)["access_token"]
        return self._token

    def _is_healthy(self) -> bool:
        for name, process in self._processes.items():
            assert process.poll() is None, f"Airflow's {name} ended:\n{self.report}"
        try:
            health = self.request("GET", "monitor/health")
        except OSError:
            return False
        return all(health[part]["status"] == "healthy" for part in ("scheduler", "triggerer"))

    def _install_provider(self) -> None:
        """The wheels of the client and the provider, unpacked where Python finds them."""
        wheels = self._folder / "wheels"
        self._run(str(airflow_environment.SETUP), "wheels", str(wheels))
        for name in ("fairlead-*.whl", "airflow/*.whl"):
            (wheel,) = wheels.glob(name)
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(self._folder / "site")

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            words,
            env=self._environment,
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=STARTED_S_MAX,
        )
        assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-4000:]}"

    def _make_environment(
        self, database: str, fairlead: StandaloneInstallation
    ) -> Mapping[str, str]:
        settings = {
            "CORE__DAGS_FOLDER": str(self._folder / "dags"),
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__FERNET_KEY": FERNET_KEY,
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__PARALLELISM": "4",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._folder / "passwords.json"),
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self._port),
            "API__BASE_URL": self.url,
            "API__SECRET_KEY": SECRET,
            "API_AUTH__JWT_SECRET": SECRET,
            "DATABASE__SQL_ALCHEMY_CONN": urlsplit(database)
            ._replace(scheme="postgresql+psycopg2")
            .geturl(),
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            "SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "1",
            "WORKERS__EXECUTION_API_TIMEOUT": "60",
            "TRIGGERER__JOB_HEARTBEAT_SEC": "1",
            "TRIGGERER__RUNNER_HEALTH_CHECK_THRESHOLD": "120",
            "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "4",
        }
        connection = {"conn_type": "fairlead", "host": fairlead.address, "password": fairlead.token}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
            "AIRFLOW_HOME": str(self._folder),
            "AIRFLOW_CONN_FAIRLEAD_DEFAULT": json.dumps(connection),
            "PYTHONPATH": str(self._folder / "site"),
            **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        }


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """`kill -9` of a process and those that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class DagRun:
    """A run of a DAG, through Airflow's API."""

    def __init__(self, airflow: AirflowInstallation, dag_id: str, conf: Any = None) -> None:
        self._airflow = airflow
        self.dag_id = dag_id
        made = airflow.request(
            "POST", f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf or {}}
        )
        self.run_id = made["dag_run_id"]
        self.path = f"dags/{dag_id}/dagRuns/{quote(self.run_id)}"

    @property
    def state(self) -> str:
        """`queued`, `running`, `success` or `failed`."""
        return str(self._airflow.request("GET", self.path)["state"])

    def task(self, task_id: str) -> Any:
        """The task instance of a task that is not mapped."""
        return self._airflow.request("GET", f"{self.path}/taskInstances/{task_id}")

    def mapped_tasks(self, task_id: str) -> list[Any]:
        """The instances of a mapped task by index, at most 100."""
        path = f"{self.path}/taskInstances/{task_id}/listMapped?limit=100&order_by=map_index"
        return list(self._airflow.request("GET", path)["task_instances"])

    def wait_for_end(self) -> str:
        """Wait until the run has ended; its state."""
        wait_for(lambda: self.state in ("success", "failed"), RUN_S_MAX, POLL_S)
        return self.state

    def wait_for_task(self, task_id: str, *states: str) -> Any:
        """Wait until the task instance is in one of these states; the task instance."""
        wait_for(lambda: self.task(task_id)["state"] in states, RUN_S_MAX, POLL_S)
        return self.task(task_id)

    def mark(self, task_id: str, state: str, map_index: int | None = None) -> None:
        """What a person does with "Mark as ..."; `map_index`: of an instance of a mapped task."""
        instance = "" if map_index is None else f"/{map_index}"
        path = f"{self.path}/taskInstances/{task_id}{instance}"
        self._airflow.request("PATCH", path, {"new_state": state})

    def clear(self, task_id: str, map_index: int | None = None) -> None:
        """What a person does with "Clear"; `map_index`: of an instance of a mapped task."""
        body = {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": self.run_id,
            "task_ids": [task_id if map_index is None else [task_id, map_index]],
        }
        self._airflow.request("POST", f"dags/{self.dag_id}/clearTaskInstances", body)

    def log(self, task_id: str, try_number: int = 1) -> str:
        """The log of a try of a task; empty before the try."""
        if self.task(task_id)["try_number"] < try_number:
            return ""
        path = f"{self.path}/taskInstances/{task_id}/logs/{try_number}?full_content=true"
        content = self._airflow.request("GET", path)["content"]
        return "\n".join(str(line.get("event", line)) for line in content)

    def xcom(self, task_id: str, key: str = "return_value") -> Any:
        """A value that a task returned."""
        path = f"{self.path}/taskInstances/{task_id}/xcomEntries/{key}?stringify=false"
        return self._airflow.request("GET", path)["value"]

    def link(self, task_id: str) -> str:
        """The link of the task to the dashboard."""
        path = f"{self.path}/taskInstances/{task_id}/links"
        return str(self._airflow.request("GET", path)["extra_links"]["Fairlead"])
