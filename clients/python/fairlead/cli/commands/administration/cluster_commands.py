"""`fairlead cluster cordon`, `uncordon`, and `drain`: whether clusters and nodes start new runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead import Client, ClusterCordon

POLL_S: Final = 0.5
NAMES_HINT: Final = "`fairlead get clusters` and `fairlead get nodes` list them"
Name = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="Name of the cluster, as in `get clusters`.")
]
Nodes = Annotated[
    list[str] | None,
    typer.Argument(metavar="NODE", help="Only these nodes; default: the whole cluster."),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Start no new jobs on a cluster or its nodes.", no_args_is_help=True)
    group.command(
        "cordon",
        epilog=command_base.format_examples(
            "fairlead cluster cordon local --reason 'new kernel tonight'",
            "fairlead cluster cordon local n1 n2",
        ),
    )(cordon)
    group.command(
        "uncordon",
        epilog=command_base.format_examples(
            "fairlead cluster uncordon local", "fairlead cluster uncordon local n1"
        ),
    )(uncordon)
    app.add_typer(group, name="cluster")
    app.command(
        "drain",
        short_help="Drain a cluster or some of its nodes.",
        epilog=command_base.format_examples(
            "fairlead drain local --dry-run",
            "fairlead drain rack-7 n1 n2 --reason 'new disks'",
            "fairlead drain rack-7 n1 --keep-running",
        ),
    )(drain)


def cordon(
    context: typer.Context,
    cluster: Name,
    nodes: Nodes = None,
    reason: command_base.Reason = "",
) -> None:
    """Start no new runs on a cluster, or on nodes of it; current runs continue."""
    _set_cordon(context, cluster, nodes or [], reason, cordoned=True)


def drain(
    context: typer.Context,
    cluster: Name,
    nodes: Nodes = None,
    reason: command_base.Reason = "",
    keep_running: Annotated[
        bool,
        typer.Option("--keep-running", help="Wait for runs to end instead of preempting them."),
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until the runs have ended.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be stopped, and change nothing.")
    ] = False,
    yes: command_base.Yes = False,
) -> None:
    """Empty a cluster, or nodes of it: cordon it, preempt the runs of all queues there, wait.

    Preempted jobs are queued again or end, as their `onPreemption` says. `fairlead cluster
    uncordon` ends the cordon.
    """
    from fairlead import NotFound

    with command_base.connect(context) as client, command_base.add_hint(NAMES_HINT, NotFound):
        there = _count_runs(client, cluster, nodes)
        runs = output_formats.format_count(sum(there.values()), "run")
        what = f"{runs} on {_describe_target(cluster, nodes)}"
        if dry_run:
            stops = "would wait for" if keep_running else "would preempt"
            typer.echo(f"{stops} {what}; nothing was done")
            return
        if there and not keep_running:
            command_base.confirm(f"Preempt {what}?", f"this would preempt {what}", yes)
        made = [
            client.cordon(cluster, node, reason=reason or "drained") for node in nodes or (None,)
        ]
        typer.echo(_describe_cordon(_describe_target(cluster, nodes), made))
        if not keep_running:
            requested = _preempt_all(client, cluster, nodes, reason or "its node is drained")
            typer.echo(f"preemption of {output_formats.format_count(requested, 'run')} requested")
        if not no_wait:
            _wait_until_empty(client, cluster, nodes)
            typer.echo(f"{_describe_target(cluster, nodes)} is empty")


def _describe_cordon(target: str, made: Sequence["ClusterCordon"]) -> str:
    """Says that a cluster or nodes are cordoned or not, or will be."""
    word = "cordoned" if made[0].cordoned else "uncordoned"
    if any(each.pending for each in made):
        return f"{target} will be {word} when the log is available; until then nothing changes"
    return f"{target} {word}"


def _describe_target(cluster: str, nodes: list[str] | None) -> str:
    if not nodes:
        return f"cluster {cluster}"
    return f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes)} of cluster {cluster}"


def _count_runs(client: "Client", cluster: str, nodes: list[str] | None) -> dict[str, int]:
    """The number of runs of each of these nodes that has any. Raises `NotFound`."""
    found = {node.node: node.runs for node in client.nodes(cluster)}
    missing = [name for name in nodes or () if name not in found]
    if missing:
        command_base.fail(
            f"cluster {cluster} has no node {missing[0]!r}", command_base.EXIT_REFUSED
        )
    return {name: runs for name, runs in found.items() if runs and (not nodes or name in nodes)}


def _preempt_all(client: "Client", cluster: str, nodes: list[str] | None, reason: str) -> int:
    """Preempt the runs of all queues there; returns how many runs the server found."""
    from fairlead import Filter

    requested = 0
    for queue in client.queues():
        for node in nodes or (None,):
            chosen = Filter(queue=queue.name, cluster=cluster, node=node)
            requested += client.preempt(chosen, reason=reason).matched or 0
    return requested


def _wait_until_empty(client: "Client", cluster: str, nodes: list[str] | None) -> None:
    """Return when nothing runs there any more; on a terminal, print how many runs are left."""
    import time

    last = 0
    while there := _count_runs(client, cluster, nodes):
        left = sum(there.values())
        if left != last and command_base.is_terminal():
            command_base.print_message(
                f"fairlead: {output_formats.format_count(left, 'run')} still running"
            )
        last = left
        time.sleep(POLL_S)


def uncordon(context: typer.Context, cluster: Name, nodes: Nodes = None) -> None:
    """Start new runs on a cluster, or on nodes of it, again."""
    _set_cordon(context, cluster, nodes or [], "", cordoned=False)


def _set_cordon(
    context: typer.Context, cluster: str, nodes: list[str], reason: str, *, cordoned: bool
) -> None:
    from fairlead import NotFound

    with command_base.connect(context) as client, command_base.add_hint(NAMES_HINT, NotFound):
        for node in nodes or (None,):
            made = (
                client.cordon(cluster, node, reason=reason)
                if cordoned
                else client.uncordon(cluster, node)
            )
            typer.echo(
                _describe_cordon(_describe_target(cluster, [node] if node else None), [made])
            )
