"""`fairlead cluster cordon` and `uncordon`: whether a cluster, or nodes of it, take new jobs."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli.support import command_base, output_formats

if TYPE_CHECKING:
    from fairlead import Client

POLL_S: Final = 0.5
WAY_OUT: Final = "`fairlead get clusters` and `fairlead get nodes` list them"
Name = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="Name of the cluster, as in `get clusters`.")
]
Nodes = Annotated[
    list[str] | None,
    typer.Argument(metavar="NODE", help="Only these nodes; the whole cluster otherwise."),
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
    reason: Annotated[
        str, typer.Option(help="The reason, for later reference.", metavar="TEXT")
    ] = "",
) -> None:
    """Place no new runs there; current runs continue."""
    _mark(context, cluster, nodes or [], reason, cordoned=True)


def drain(
    context: typer.Context,
    cluster: Name,
    nodes: Nodes = None,
    reason: Annotated[
        str, typer.Option(help="The reason, for later reference.", metavar="TEXT")
    ] = "",
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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Empty a cluster, or nodes of it: cordon it, preempt the runs of all queues there, wait.

    Preempted jobs wait for another place, or end, as their `onPreemption` says. `fairlead cluster
    uncordon` lets it be used again.
    """
    from fairlead import NotFound

    with command_base.connect(context) as client, command_base.add_hint(WAY_OUT, NotFound):
        there = _runs(client, cluster, nodes)
        what = (
            f"{output_formats.format_count(sum(there.values()), 'run')} on {_where(cluster, nodes)}"
        )
        if dry_run:
            stops = "would wait for" if keep_running else "would preempt"
            typer.echo(f"{stops} {what}; nothing was done")
            return
        if there and not keep_running:
            command_base.confirm(f"Preempt {what}?", f"this would preempt {what}", yes)
        for node in nodes or (None,):
            client.cordon(cluster, node, reason=reason or "drained")
        typer.echo(f"{_where(cluster, nodes)} cordoned")
        if not keep_running:
            requested = _preempt_all(client, cluster, nodes, reason or "its node is drained")
            typer.echo(f"preemption of {output_formats.format_count(requested, 'run')} requested")
        if not no_wait:
            _wait_until_empty(client, cluster, nodes)
            typer.echo(f"{_where(cluster, nodes)} is empty")


def _where(cluster: str, nodes: list[str] | None) -> str:
    if not nodes:
        return f"cluster {cluster}"
    return f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes)} of cluster {cluster}"


def _runs(client: "Client", cluster: str, nodes: list[str] | None) -> dict[str, int]:
    """How many runs each of these nodes has, of those that have any. Raises `NotFound`."""
    found = {node.node: node.runs for node in client.nodes(cluster)}
    missing = [name for name in nodes or () if name not in found]
    if missing:
        command_base.fail(
            f"cluster {cluster} has no node {missing[0]!r}", command_base.EXIT_REFUSED
        )
    return {name: runs for name, runs in found.items() if runs and (not nodes or name in nodes)}


def _preempt_all(client: "Client", cluster: str, nodes: list[str] | None, reason: str) -> int:
    """Preempt what runs there, of every queue; how many runs the server knew of."""
    from fairlead import Filter

    requested = 0
    for queue in client.queues():
        for node in nodes or (None,):
            chosen = Filter(queue=queue.name, cluster=cluster, node=node)
            requested += client.preempt(chosen, reason=reason).matched or 0
    return requested


def _wait_until_empty(client: "Client", cluster: str, nodes: list[str] | None) -> None:
    """Return when nothing runs there any more; at a terminal it says how many still do."""
    import time

    last = 0
    while there := _runs(client, cluster, nodes):
        left = sum(there.values())
        if left != last and command_base.is_terminal():
            command_base.print_message(
                f"fairlead: {output_formats.format_count(left, 'run')} still running"
            )
        last = left
        time.sleep(POLL_S)


def uncordon(context: typer.Context, cluster: Name, nodes: Nodes = None) -> None:
    """Let it be used again."""
    _mark(context, cluster, nodes or [], "", cordoned=False)


def _mark(
    context: typer.Context, cluster: str, nodes: list[str], reason: str, *, cordoned: bool
) -> None:
    from fairlead import NotFound

    word = "cordoned" if cordoned else "uncordoned"
    with command_base.connect(context) as client, command_base.add_hint(WAY_OUT, NotFound):
        for node in nodes or (None,):
            if cordoned:
                client.cordon(cluster, node, reason=reason)
            else:
                client.uncordon(cluster, node)
            typer.echo(f"{f'node {node} of ' if node else ''}cluster {cluster} {word}")
