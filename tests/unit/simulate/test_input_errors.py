"""Invalid input: all errors are reported together, with file, line, field and reason."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead_scheduler.simulate import simulation
from fairlead_scheduler.simulate.input import input_errors
from fairlead_scheduler.simulate.input.input_errors import InputError, InvalidInput
from fairlead_scheduler.simulate.simulation import SimulationOptions
from tests.unit.simulate.simulations import NODES, Value, group, job, jobs_file, write

GOOD = job("good")
Write = Callable[[str, str], SimulationOptions]


def read_errors(options: SimulationOptions) -> list[InputError]:
    """The errors of an invalid input."""
    with pytest.raises(InvalidInput) as caught:
        simulation.read_input(options)
    return caught.value.errors.listed


@pytest.fixture
def options(tmp_path: Path) -> SimulationOptions:
    return write(tmp_path, [GOOD])


JOBS: dict[str, tuple[Value, str, str]] = {
    "invalid JSON": ("{", "", "is not valid JSON"),
    "no object": ("7", "", "a mapping of fields is expected"),
    "a list": ("[]", "", "a mapping of fields is expected"),
    "null": ("null", "", "is empty"),
    "not UTF-8": ("\udcff", "", "is not valid JSON"),
    "an unknown field": ({**GOOD, "colour": "red"}, "colour", "there is no such field"),
    "a missing field": ({"id": "a", "queue": "a", "submitSeconds": 0}, "runSeconds", "is missing"),
    "a negative time": (job("a", submitSeconds=-1), "submitSeconds", ">= 0"),
    "a time beyond all bounds": (job("a", runSeconds=1e300), "runSeconds", "<="),
    "NaN": (
        '{"id": "a", "queue": "a", "submitSeconds": NaN, "runSeconds": 1}',
        "",
        "is not valid JSON",
    ),
    "a run time of words": (job("a", runSeconds="long"), "runSeconds", "Expected"),
    "a negative mean": (job("a", runSeconds={"min": 1, "meanTail": -1}), "runSeconds", ">= 0"),
    "a run time with another field": (job("a", runSeconds={"mean": 1}), "runSeconds", "mean"),
    "cpu of words": (job("a", cpu="two"), "cpu", "is not a quantity"),
    "half a GPU": (job("a", gpu=0.5), "gpu", "is counted in whole units"),
    "negative memory": (job("a", memory="-1Gi"), "memory", "is negative"),
    "more than any machine": (job("a", cpu="1E"), "cpu", "exceeds the maximum amount"),
    "a boolean": (job("a", cpu=True), "cpu", "Expected"),
    "an empty id": (job(""), "id", "length"),
    "an id with a new line": (job("a\nb"), "id", "matching"),
    "an id twice": (GOOD, "id", "is used in an earlier line"),
    "an unknown class": (
        job("a", priorityClass="gold"),
        "priorityClass",
        "'gold' is not a priority class",
    ),
    "a priority of 2^40": (job("a", priority=2**40), "priority", "<="),
    "a gang of size 0": (job("a", gang={"name": "g", "size": 0}), "gang", ">= 1"),
    "a gang without size": (job("a", gang={"name": "g"}), "gang", "size"),
    "a minimum above the size": (
        job("a", gang={"name": "g", "size": 2, "minSize": 3}),
        "gang",
        "minSize 3 is above size 2",
    ),
    "a rest that is neither": (job("a", gang={"name": "g", "size": 1, "rest": "go"}), "gang", "go"),
    "an unknown dependency": (job("a", after=["nobody"]), "after", "no job nobody"),
    "a dependency on itself": (job("a", after=["a"]), "after", "waits for itself"),
    "a probability of 2": (
        job("a", failAfterSeconds={"probability": 2}),
        "failAfterSeconds",
        "<= 1",
    ),
    "no maximum run time": (job("a", maxRuntimeSeconds=0), "maxRuntimeSeconds", "> 0"),
    "a checkpoint every 0 s": (job("a", checkpointSeconds=0), "checkpointSeconds", "> 0"),
    "a selector that is a list": (job("a", nodeSelector=["x"]), "nodeSelector", "Expected"),
    "a group of an unknown field": (group("a", {"name": "w", "min": 1}, gang=1), "gang", "no such"),
    "a role without a time": (
        {**group("a"), "roles": [{"name": "w", "min": 1}]},
        "roles",
        "runSeconds",
    ),
    "a role with more than its maximum": (
        group("a", {"name": "w", "min": 3, "max": 2}),
        "roles.w.max",
        "is 2, below `min`, which is 3",
    ),
    "two roles of one name": (
        group("a", {"name": "w", "min": 1}, {"name": "w", "min": 1}),
        "roles",
        "two roles have the same name",
    ),
    "a group without members": (group("a", {"name": "w", "min": 0}), "roles", "have 0 members"),
    "a group that needs nothing": (
        group("a", {"name": "w", "min": 0, "max": 2}),
        "roles",
        "need no member",
    ),
    "a group with an amount of words": (
        group("a", {"name": "w", "min": 2, "cpu": "two"}),
        "cpu",
        "is not a quantity",
    ),
    "an unknown category": (job("a", retry={"limit": 1, "on": ["luck"]}), "retry", "luck"),
}


@pytest.mark.parametrize("name", JOBS)
def test_an_invalid_job_is_reported_with_line_and_field(
    options: SimulationOptions, name: str
) -> None:
    line, field, reason = JOBS[name]
    text = line if isinstance(line, str) else json.dumps(line)
    content = f"{json.dumps(GOOD)}\n\n{text}\n"
    jobs_file(options).write_bytes(content.encode("utf-8", "surrogateescape"))
    (error,) = read_errors(options)
    assert (error.file, error.line, error.field) == (str(options.jobs), 3, field)
    assert reason in error.reason


def test_all_errors_of_all_lines_are_reported(options: SimulationOptions) -> None:
    lines = [job("a", cpu=True, submitSeconds="x"), GOOD, job("b", queue="", more=1)]
    jobs_file(options).write_text("".join(json.dumps(line) + "\n" for line in lines))
    named = {(error.line, error.field) for error in read_errors(options)}
    assert named == {(1, "cpu"), (1, "submitSeconds"), (3, "queue"), (3, "more")}


def test_the_list_of_errors_is_limited(options: SimulationOptions) -> None:
    jobs_file(options).write_text("{}\n" * 1_000)
    with pytest.raises(InvalidInput) as caught:
        simulation.read_input(options)
    assert len(caught.value.errors.listed) == input_errors.LISTED_MAX
    assert caught.value.errors.lines()[-1] == "... and 3900 more"


def test_members_of_a_gang_must_agree(options: SimulationOptions) -> None:
    gang = {"name": "g", "size": 2}
    lines = [job("a", gang=gang), job("b", gang={**gang, "size": 3}), job("c", gang=gang)]
    jobs_file(options).write_text("".join(json.dumps(line) + "\n" for line in lines))
    first, second = read_errors(options)
    assert (first.line, first.reason) == (2, "differs from that of a in line 1")
    assert (second.line, second.reason) == (3, "g has 3 members, more than its size 2")


def test_the_length_of_a_line_is_limited(options: SimulationOptions) -> None:
    jobs_file(options).write_bytes(b"x" * 3_000_000)
    (error,) = read_errors(options)
    assert "longer than 1 MiB" in error.reason


def test_a_file_without_jobs_is_an_error(options: SimulationOptions) -> None:
    jobs_file(options).write_text("\n\n")
    (error,) = read_errors(options)
    assert error.reason == "has no job"


def test_all_unreadable_files_are_reported(tmp_path: Path) -> None:
    missing = SimulationOptions(tmp_path / "j", tmp_path / "n", tmp_path / "s")
    found = read_errors(missing)
    assert [error.file for error in found] == [str(tmp_path / name) for name in "snj"]
    assert {error.reason for error in found} == {"cannot be read: No such file or directory"}


def test_a_folder_instead_of_a_file_is_an_error(options: SimulationOptions) -> None:
    folder = jobs_file(options).parent
    assert len(read_errors(SimulationOptions(folder, folder, folder))) == 3


NODE_FILES = {
    "invalid YAML": ("- {name: n", 1, "", "is not valid YAML"),
    "a tab": ("- name: n\n\tx: 1", 2, "", "is not valid YAML"),
    "not a list": ("name: n", 1, "", "is not a list of nodes"),
    "nothing": ("", 1, "", "is not a list of nodes"),
    "no node": ("[]", 1, "", "has no node of pool default"),
    "no object": ("- 7", 1, "", "a mapping of fields is expected"),
    "a missing field": ("- {name: n}", 1, "resources", "is missing"),
    "an unknown field": ("- name: n\n  resources: {cpu: 1}\n  size: 2", 3, "size", "no such field"),
    "a negative capacity": (
        "- name: n\n  resources:\n    cpu: -4",
        3,
        "resources.cpu",
        "is negative",
    ),
    "no quantity": ("- {name: n, resources: {cpu: lots}}", 1, "resources.cpu", "not a quantity"),
    "an infinite quantity": (
        "- {name: n, resources: {cpu: .inf}}",
        1,
        "resources.cpu",
        "quantity",
    ),
    "a count of 0": ("- {name: n, count: 0, resources: {cpu: 1}}", 1, "count", "is 0"),
    "too many": ("- {name: n, count: 1000000, resources: {cpu: 1}}", 1, "count", "is 1000000"),
    "too many in all": (
        "- {name: n, count: 150000, resources: {}}\n- {name: m, count: 150000, resources: {}}",
        2,
        "count",
        "more than 200000 nodes",
    ),
    "a taint without effect": (
        "- {name: n, resources: {}, taints: [{key: k, effect: Never}]}",
        1,
        "taints",
        "'Never' is not one of",
    ),
    "removed before it is added": (
        "- {name: n, resources: {cpu: 1}, fromSeconds: 9,\n   untilSeconds: 9}",
        2,
        "untilSeconds",
        "is 9, not after fromSeconds (9)",
    ),
    "a change while it does not exist": (
        "- name: n\n  resources: {cpu: 1}\n  changes: [{atSeconds: 5, resources: {cpu: 2}}]\n"
        "  untilSeconds: 5",
        3,
        "changes",
        "at 5 s the nodes do not exist",
    ),
    "a change to no quantity": (
        "- name: n\n  resources: {cpu: 1}\n  changes: [{atSeconds: 5, resources: {cpu: some}}]",
        3,
        "changes.cpu",
        "not a quantity",
    ),
    "an alias": ("- &a {name: n, resources: {cpu: 1}}\n- *a", 2, "", "has an alias"),
    "a key twice": ("- name: n\n  name: m\n  resources: {}", 2, "name", "occurs twice"),
    "endless nesting": ("[" * 40 + "]" * 40, 1, "", "is nested more than 32 levels deep"),
    "only other pools": (
        "- {name: n, resources: {cpu: 1}, pool: x}",
        1,
        "",
        "no node of pool default",
    ),
}


@pytest.mark.parametrize("name", NODE_FILES)
def test_an_invalid_node_is_reported_with_line_and_field(
    options: SimulationOptions, name: str
) -> None:
    text, line, field, reason = NODE_FILES[name]
    assert options.nodes is not None
    options.nodes.write_text(text)
    (error,) = read_errors(options)
    assert (error.file, error.line, error.field) == (str(options.nodes), line, field)
    assert reason in error.reason


SETTINGS = {
    "no mapping": ("[]", 1, "", "is not a mapping"),
    "an unknown setting": ("\ncolour: red", 2, "colour", "is not a setting of the scheduler"),
    "an unknown rule": ("rules:\n  fairness: 1", 2, "rules.fairness", "is not a setting"),
    "rules that are not a mapping": ("rules: 7", 1, "rules", "is not a mapping"),
    "a share of words": (
        "protectedFractionOfFairShare: all",
        1,
        "protectedFractionOfFairShare",
        "Expected",
    ),
    "a negative share": (
        "\nprotectedFractionOfFairShare: -1",
        2,
        "protectedFractionOfFairShare",
        "is -1",
    ),
    "no number": ("roundLimit: {cpu: .nan}", 1, "roundLimit.cpu", "is nan"),
    "an unknown placement": (
        "rules:\n  placement: best",
        2,
        "placement",
        "is 'best'; choose one of",
    ),
    "a rate that never gives anything": (
        "rate: {perSecond: 0, burst: 1}",
        1,
        "rate.perSecond",
        "must be above 0",
    ),
    "a limit of a class that is not there": (
        "classLimits: {gold: {cpu: 1}}",
        1,
        "classLimits.gold",
        "is not a priority class; choose one of",
    ),
    "a class twice": (
        "priorityClasses: [{name: a, value: 1}, {name: a, value: 2}, {name: default, value: 0}]",
        1,
        "priorityClasses",
        "names 'a' 2 times",
    ),
    "an away value above the home value": (
        "priorityClasses:\n"
        "- {name: default, value: 0}\n"
        "- {name: a, value: 1, awayNodeTypes: [{taints: [{key: gpu}], value: 5}]}",
        3,
        "priorityClasses[1].awayNodeTypes[0].value",
        "it must be below",
    ),
    "a weight of 0": (
        "queues:\n  a:\n    weight: 0",
        3,
        "queues.a.weight",
        "a number above 0 is expected",
    ),
    "a queue with an unknown field": (
        "queues: {a: {size: 1}}",
        1,
        "queues.a.size",
        "no such field",
    ),
    "an unknown order": ("queues: {a: {order: lifo}}", 1, "queues.a.order", "'lifo'"),
    "a negative weight of a resource": (
        "rules:\n  scoreWeights: {gpu: -1}",
        2,
        "scoreWeights.nvidia.com/gpu",
        "is -1",
    ),
    "a queue limit of an unknown class": (
        "queues: {a: {limits: {gold: {cpu: 1}}}}",
        1,
        "queues.a.limits.gold",
        "no such priority class",
    ),
    "a queue limit that is no quantity": (
        "queues: {a: {limits: {default: {cpu: much}}}}",
        1,
        "queues.a.limits.default.cpu",
        "is not a quantity",
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_an_invalid_setting_is_reported_with_its_line(
    options: SimulationOptions, name: str
) -> None:
    text, line, field, reason = SETTINGS[name]
    assert options.settings is not None
    options.settings.write_text(text)
    (error,) = read_errors(options)
    assert (error.file, error.line, error.field) == (str(options.settings), line, field)
    assert reason in error.reason


def test_the_settings_file_of_the_services_is_valid(options: SimulationOptions) -> None:
    assert options.settings is not None
    options.settings.write_text(
        "logUrl: kafka://log:9092\n"
        "anonymous: false\n"
        "submit: {httpPort: 1}\n"
        "priorityClasses: [{name: default, value: 0}, {name: gold, value: 9}]\n"
        "rules: {lookback: 5}\n"
        "scheduler:\n"
        "  cycleS: 2\n"
        "  rules: {lookback: 7, costMultipliers: {gpu: 2},"
        " pools: {other: {lookback: 9}, default: {placement: pack, floating: {gpu: 3}}}}\n"
    )
    settings = simulation.read_input(options).settings
    assert settings.scheduler.rules.lookback == 7
    assert settings.scheduler.rules.cost_multipliers == {"nvidia.com/gpu": 2}
    assert settings.scheduler.rules.placement == "pack", "those of the pool that is simulated"
    assert settings.scheduler.rules.floating == {"nvidia.com/gpu": 3}
    assert [item.name for item in settings.scheduler.priority_classes] == ["default", "gold"]


def test_a_trace_in_json_needs_nodes(options: SimulationOptions) -> None:
    (error,) = read_errors(options._replace(nodes=None))
    assert (error.file, error.reason[:10]) == ("--nodes", "is missing")


def test_nodes_can_be_json(tmp_path: Path) -> None:
    options = write(tmp_path, [GOOD], [{**NODES[0], "count": 3}])
    assert [node.name for node in simulation.read_input(options).nodes] == ["n0", "n1", "n2"]
