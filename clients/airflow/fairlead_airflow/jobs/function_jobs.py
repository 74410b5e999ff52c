"""A Python function as the command of a job, and its result in the output of the job.

Pure: Airflow is not imported here.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

RESULT_MARK: Final = "::fairlead-result::"
"""How the line of the output begins that has the result as JSON."""

RESULT_CHARACTERS_MAX: Final = 500_000

_PROGRAM: Final = """\
from __future__ import annotations
import json as _json, sys as _sys
{source}
_args, _kwargs = _json.loads({arguments!r})
_value = {name}(*_args, **_kwargs)
try:
    _result = _json.dumps(_value, allow_nan=False)
except (TypeError, ValueError) as _error:
    _sys.exit(f"The result of {name} cannot be returned as JSON: {{_error}}")
if "\\\\u0000" in _result.replace("\\\\\\\\", ""):
    _sys.exit("The result of {name} contains the character NUL, which Airflow cannot store.")
if len(_result) > {characters_max}:
    _sys.exit(f"The result has {{len(_result)}} characters; at most {characters_max} are allowed.")
_sys.stderr.flush()
print("\\n{mark}" + _result, flush=True)
"""


class NoResult(Exception):
    """The output of a job has no result of a function."""


def build_command(
    python: str, source: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[str, ...]:
    """The command that calls the function `name` of this source.

    Raises `TypeError` for arguments that JSON does not have.
    """
    try:
        arguments = json.dumps([list(args), dict(kwargs)], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"An argument of {name} cannot be sent to its job as JSON: {error}"
        ) from error
    program = _PROGRAM.format(
        source=source,
        arguments=arguments,
        name=name,
        mark=RESULT_MARK,
        characters_max=RESULT_CHARACTERS_MAX,
    )
    return (python, "-c", program)


def read_result(lines: Sequence[str]) -> Any:
    """The result in the last lines of an output. Raises `NoResult`."""
    for line in reversed(lines):
        if line.startswith(RESULT_MARK):
            return json.loads(line.removeprefix(RESULT_MARK))
    raise NoResult("The job succeeded, but its log does not contain the result of the function.")
