"""Trains a logistic regression with a parameter server and any number of trainers.

    python train.py server [--until FILE]      holds the weights and hands out the work
    python train.py trainer                    computes gradients until the training is over
    python train.py watch                      prints the live members of the group as they change
    python train.py alone                      trains in one process; prints the loss

Each step of the training is divided into `SHARDS` tasks, one for each part of the data. A trainer
takes a task, returns the gradient of its part, and takes the next one. The server adds the
gradients in the order of the parts once it has all of them, so the result does not depend on how
many trainers there are. A task whose trainer has disappeared is handed out again.

Trainers find the server in the group file (FAIRLEAD_GROUP_FILE), at the port in the variable
PADDLE_INIT_PORT.
"""

import argparse
import json
import os
import socket
import socketserver
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Result = tuple[float, Array]
"""The loss and the gradient, summed over a part of the data."""
Task = tuple[int, int, Array]
"""The step, the part of the data, and the weights."""

ROWS, COLUMNS, SHARDS = 6_000, 12, 6
PENALTY = 0.01
STEP_SIZE = 2.0
STEPS = 200
"""Far more than it takes until the loss stays the same to 9 digits."""
TASK_S = 0.005
"""Each task waits so long, as if it were a larger one."""
SERVER_ROLES = ("server", "pserver")


def make_data() -> tuple[Array, Array]:
    """The features (ROWS x COLUMNS) and the labels (0 or 1), the same for each call."""
    chance = np.random.default_rng(7)
    features = chance.standard_normal((ROWS, COLUMNS))
    truth = chance.standard_normal(COLUMNS)
    labels = (features @ truth + chance.logistic(size=ROWS) > 0).astype(float)
    return features, labels


class Part:
    """One part of the data."""

    def __init__(self, features: Array, labels: Array, shard: int) -> None:
        rows = slice(shard * ROWS // SHARDS, (shard + 1) * ROWS // SHARDS)
        self.features, self.labels = features[rows], labels[rows]

    def compute(self, weights: Array) -> Result:
        """The sums over the part of the loss, and of its gradient."""
        scores = self.features @ weights
        loss = np.logaddexp(0.0, scores) - self.labels * scores
        errors = 1.0 / (1.0 + np.exp(-scores)) - self.labels
        return float(loss.sum()), self.features.T @ errors


def make_parts() -> list[Part]:
    """All parts of the data, in their order."""
    features, labels = make_data()
    return [Part(features, labels, shard) for shard in range(SHARDS)]


def finish_step(weights: Array, results: list[Result]) -> tuple[float, Array]:
    """The loss at the weights, and the weights of the next step."""
    loss = sum(loss for loss, _ in results) / ROWS + 0.5 * PENALTY * float(weights @ weights)
    gradient = np.sum([gradient for _, gradient in results], axis=0) / ROWS + PENALTY * weights
    return loss, weights - STEP_SIZE * gradient


def train_alone() -> float:
    """The loss after the last step, in this process."""
    parts, loss = make_parts(), 0.0
    weights: Array = np.zeros(COLUMNS)
    for _ in range(STEPS):
        loss, weights = finish_step(weights, [part.compute(weights) for part in parts])
    return loss


class Training:
    """The weights, and the tasks of the step that is computed now. Used by several threads."""

    def __init__(self, until: Path | None) -> None:
        self.until = until
        self.changed = threading.Condition()
        self.weights: Array = np.zeros(COLUMNS)
        self.loss, self.step = 0.0, 0
        self.tasks = list(range(SHARDS))
        self.results: dict[int, Result] = {}
        self.trainers = 0

    def is_over(self) -> bool:
        """Whether all steps are done, and nobody wants the training to go on."""
        return self.step >= STEPS and (self.until is None or self.until.exists())

    def join(self, change: int) -> None:
        """A trainer has come (1) or gone (-1)."""
        with self.changed:
            self.trainers += change
            print(f"step {self.step}: {self.trainers} trainers", flush=True)

    def take_task(self) -> Task | None:
        """The next task; None: the training is over."""
        with self.changed:
            while not self.tasks and not self.is_over():
                self.changed.wait(timeout=0.2)
            return None if self.is_over() else (self.step, self.tasks.pop(), self.weights)

    def return_task(self, step: int, shard: int) -> None:
        """The trainer of this task has disappeared."""
        with self.changed:
            if step == self.step and shard not in self.results:
                self.tasks.append(shard)
                self.changed.notify_all()

    def add_result(self, step: int, shard: int, result: Result) -> None:
        """The result of a task; the last one of a step finishes it."""
        with self.changed:
            if step != self.step:
                return
            self.results[shard] = result
            if len(self.results) < SHARDS:
                return
            ordered = [self.results[each] for each in range(SHARDS)]
            self.loss, self.weights = finish_step(self.weights, ordered)
            self.step, self.tasks, self.results = self.step + 1, list(range(SHARDS)), {}
            if self.step % 100 == 0:
                print(f"step {self.step}: loss {self.loss:.9f}", flush=True)
            self.changed.notify_all()


class Trainer(socketserver.StreamRequestHandler):
    """The server's side of the connection of a trainer: one line of JSON for each message."""

    server: "Server"

    def handle(self) -> None:
        training = self.server.training
        training.join(1)
        task: Task | None = None
        try:
            while True:
                task = training.take_task()
                if task is None:
                    self.send({"over": True})
                    return
                step, shard, weights = task
                self.send({"shard": shard, "weights": weights.tolist()})
                answer = json.loads(self.rfile.readline())
                training.add_result(step, shard, (answer["loss"], np.array(answer["gradient"])))
                task = None
        except (OSError, ValueError):
            pass  # it was stopped or killed; its task is handed out again
        finally:
            if task is not None:
                training.return_task(task[0], task[1])
            training.join(-1)

    def send(self, message: dict[str, object]) -> None:
        self.wfile.write(json.dumps(message).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    """Accepts trainers."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], training: Training) -> None:
        super().__init__(address, Trainer)
        self.training = training


def serve(until: Path | None) -> None:
    """Serve trainers until Fairlead stops this process, which it does when they have succeeded."""
    training = Training(until)
    with Server(("0.0.0.0", read_port()), training) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with training.changed:
            while not training.is_over():
                training.changed.wait(timeout=0.2)
        print(f"loss {training.loss!r}", flush=True)
        threading.Event().wait()


def train() -> None:
    """Compute gradients for the server until the training is over."""
    parts = make_parts()
    print(f"trainer {os.environ.get('FAIRLEAD_ROLE_INDEX')} is process {os.getpid()}", flush=True)
    while True:
        try:
            with socket.create_connection((find_server(), read_port()), timeout=30) as connection:
                if compute_for(cast(BinaryIO, connection.makefile("rwb")), parts):
                    return
        except (OSError, ValueError):
            time.sleep(0.1)  # the server is not there yet, or not any more


def compute_for(stream: BinaryIO, parts: list[Part]) -> bool:
    """Do the tasks of a server; True: the training is over."""
    for line in stream:
        task = json.loads(line)
        if task.get("over"):
            return True
        time.sleep(TASK_S)
        loss, gradient = parts[task["shard"]].compute(np.array(task["weights"]))
        answer = {"loss": loss, "gradient": gradient.tolist()}
        stream.write(json.dumps(answer).encode() + b"\n")
        stream.flush()
    return False


def read_members() -> list[dict[str, Any]]:  # `Any`: JSON
    """The live members of the group."""
    group = json.loads(Path(os.environ["FAIRLEAD_GROUP_FILE"]).read_text())
    members: list[dict[str, Any]] = group["members"]  # `Any`: JSON
    return members


def find_server() -> str:
    """The address of the parameter server. Raises `OSError` if it does not run."""
    for member in read_members():
        if member["role"] in SERVER_ROLES and member["address"]:
            return str(member["address"])
    raise ConnectionError("the group has no server now")


def read_port() -> int:
    """The port of the server."""
    return int(os.environ["PADDLE_INIT_PORT"])


def watch() -> None:
    """Print the number of running trainers whenever it changes."""
    before = None
    while True:
        running = [
            member
            for member in read_members()
            if member["role"] == "trainer" and member["state"] == "RUNNING"
        ]
        if len(running) != before:
            before = len(running)
            print(f"{before} trainers run", flush=True)
        time.sleep(0.2)


def main() -> None:
    """Read the arguments, and do what they say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("role", choices=("server", "trainer", "watch", "alone"))
    parser.add_argument("--until", type=Path, help="do not end before this file exists")
    given = parser.parse_args()
    if given.role == "server":
        serve(given.until)
    elif given.role == "trainer":
        train()
    elif given.role == "watch":
        watch()
    else:
        print(f"loss {train_alone()!r}")


if __name__ == "__main__":
    main()
