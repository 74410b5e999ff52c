"""Time, chance and ids are arguments: who reads the clock or draws lots is listed here."""

from tests.architecture.sources import SERVERS, Source, references, sources

READERS = (
    "time.time",
    "time.monotonic",
    "time.perf_counter",
    "time.process_time",
    "time.localtime",
    "time.gmtime",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "random.",
    "secrets.",
    "uuid.",
    "os.urandom",
    "numpy.random",
)
"""Beginnings of names: `time.time` is `time.time_ns` as well. Deadlines by an event loop's own
clock are asyncio's business."""

COMMON = "libs/common/fairlead_common"
ALLOWED = {
    (f"{COMMON}/service/clock.py", "time.time_ns"): "the one module that reads the clock",
    (f"{COMMON}/service/clock.py", "time.monotonic"): "the one module that reads the clock",
    (f"{COMMON}/web/auth/api_tokens.py", "secrets.token_urlsafe"): "a new token is a secret",
    (f"{COMMON}/web/auth/passwords.py", "secrets.token_bytes"): "a key of this process alone",
    (f"{COMMON}/web/auth/passwords.py", "secrets.token_urlsafe"): "a password that nobody has",
    (f"{COMMON}/web/middleware.py", "secrets.token_hex"): "a request without an id is given one",
    (
        "services/submit/fairlead_submit/service/submission_service.py",
        "secrets.randbits",
    ): "ids of new jobs",
    (
        "services/submit/fairlead_submit/service/arrays/array_service.py",
        "secrets.randbits",
    ): "ids of new arrays",
    (
        "services/submit/fairlead_submit/service/group_service.py",
        "secrets.randbits",
    ): "ids of new groups and their members",
    (
        "services/submit/fairlead_submit/service/resubmission_service.py",
        "secrets.token_hex",
    ): "ids of new actions",
    ("services/submit/fairlead_submit/http/auth/sign_in_routes.py", "secrets.token_urlsafe"): (
        "the secrets of a sign-in with a provider"
    ),
    ("services/lookout/fairlead_lookout/service/fold_loop.py", "secrets.randbelow"): (
        "a lock of its own for each process"
    ),
    (
        "services/lookout/fairlead_lookout/http/api/webhooks/webhook_routes.py",
        "secrets.token_bytes",
    ): ("the secret of a new webhook"),
    (
        "services/lookout/fairlead_lookout/http/api/webhooks/webhook_delivery_routes.py",
        "secrets.token_hex",
    ): ("ids of test deliveries"),
    ("services/lookout/fairlead_lookout/service/webhooks/worker.py", "random.random"): (
        "retries of many deliveries do not come at once"
    ),
    ("services/lookout/fairlead_lookout/service/webhooks/worker.py", "secrets.randbelow"): (
        "a lock of its own for each process"
    ),
    ("services/executor/fairlead_executor/service/service.py", "secrets.token_hex"): (
        "the name of one process after another"
    ),
    ("services/scheduler/fairlead_scheduler/service/leader_heartbeat.py", "secrets.token_hex"): (
        "the name of one leader after another"
    ),
    ("services/standalone/fairlead_standalone/data/data_folder.py", "secrets.token_urlsafe"): (
        "passwords of the embedded servers"
    ),
    ("services/executor/fairlead_executor/backends/connect.py", "random.random"): (
        "executors that lost the same API server do not all come back at once"
    ),
    ("services/executor/fairlead_executor/backends/process/runner.py", "time.monotonic"): (
        "a program of its own, which imports nothing of Fairlead so that it starts at once"
    ),
    ("services/executor/fairlead_executor/backends/process/runner.py", "time.time_ns"): (
        "a program of its own, which imports nothing of Fairlead so that it starts at once"
    ),
    ("services/scheduler/fairlead_scheduler/cases/case_world.py", "time.perf_counter"): (
        "a command for people: it prints how long each round took"
    ),
}


def read_by(source: Source) -> set[tuple[str, str]]:
    """What a file reads of the clock and of chance."""
    return {
        (source.path, reference.name)
        for reference in references(source)
        if reference.name.startswith(READERS)
    }


def test_only_listed_modules_use_the_clock_or_randomness() -> None:
    found = {item for source in sources(*SERVERS) for item in read_by(source)}
    unlisted = sorted(found - ALLOWED.keys())
    assert not unlisted, (
        "take time from fairlead_common.service.clock at the edge and hand it on as an argument,"
        " or say here why this place must read it itself"
    )


def test_every_listed_module_uses_the_clock_or_randomness() -> None:
    found = {item for source in sources(*SERVERS) for item in read_by(source)}
    assert not sorted(ALLOWED.keys() - found)


def test_the_runner_is_a_program_of_its_own() -> None:
    (runner,) = [s for s in sources(*SERVERS) if s.path.endswith("backends/process/runner.py")]
    assert not [m for m in references(runner) if m.name.startswith(("fairlead", "msgspec"))]
