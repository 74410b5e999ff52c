"""What became of the fields of manifests, for people."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead.models.manifest_models import ManifestField


def select_objects(documents: Iterable[object]) -> list[dict[str, object]]:
    """The documents that are objects: all of them, after `are_manifests`."""
    return [document for document in documents if isinstance(document, dict)]


def print_ignored(fields: "Iterable[ManifestField]") -> None:
    """Print the fields that have no effect on stderr, with the reason."""
    for field in fields:
        if field.use == "ignored":
            command_base.print_message(f"ignored {field.pointer}: {field.detail}")


def print_report(fields: "Sequence[ManifestField]", output_format: output_formats.Format) -> None:
    """Print every field and what it becomes."""
    columns: output_formats.Columns[ManifestField] = {
        "FIELD": lambda field: field.pointer,
        "USE": lambda field: field.use,
        "DETAIL": lambda field: field.detail,
    }
    output_formats.print_list(
        fields, output_format, columns, lambda field: field.pointer, "no fields"
    )
