"""`fairlead cluster cordon` and `uncordon`: whether a cluster, or nodes of it, take new jobs."""

from typing import Annotated

import typer

from fairlead.cli import frame

Name = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="Name of the cluster, as `get clusters` says it.")
]
Nodes = Annotated[
    list[str] | None,
    typer.Argument(metavar="NODE", help="Only these nodes; the whole cluster otherwise."),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        help="Keep new jobs away from a cluster or its nodes.", no_args_is_help=True
    )
    group.command(
        "cordon",
        epilog=frame.examples(
            "fairlead cluster cordon local --reason 'new kernel tonight'",
            "fairlead cluster cordon local n1 n2",
        ),
    )(cordon)
    group.command(
        "uncordon",
        epilog=frame.examples(
            "fairlead cluster uncordon local", "fairlead cluster uncordon local n1"
        ),
    )(uncordon)
    app.add_typer(group, name="cluster")


def cordon(
    context: typer.Context,
    cluster: Name,
    nodes: Nodes = None,
    reason: Annotated[str, typer.Option(help="Why, for whoever asks later.", metavar="TEXT")] = "",
) -> None:
    """Place nothing new there; what runs goes on."""
    _mark(context, cluster, nodes or [], reason, cordoned=True)


def uncordon(context: typer.Context, cluster: Name, nodes: Nodes = None) -> None:
    """Let it be used again."""
    _mark(context, cluster, nodes or [], "", cordoned=False)


def _mark(
    context: typer.Context, cluster: str, nodes: list[str], reason: str, *, cordoned: bool
) -> None:
    from fairlead import NotFound

    word = "cordoned" if cordoned else "uncordoned"
    way_out = "`fairlead get clusters` and `fairlead get nodes` list them"
    with frame.connect(context) as client, frame.hint(way_out, NotFound):
        for node in (*nodes,) or (None,):
            if cordoned:
                client.cordon(cluster, node, reason=reason)
            else:
                client.uncordon(cluster, node)
            typer.echo(f"{f'node {node} of ' if node else ''}cluster {cluster} {word}")
