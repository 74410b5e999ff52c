"""`@task.fairlead`: a Python function whose body runs as a job."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from airflow.sdk import Context
from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory
from airflow.sdk.exceptions import AirflowFailException

from fairlead import Job
from fairlead_airflow.jobs import function_jobs
from fairlead_airflow.operator import FairleadSubmitOperator


class FairleadDecoratedOperator(DecoratedOperator, FairleadSubmitOperator):
    """Runs the function with its arguments as a job, and returns what it returns.

    The source of the function is sent, so it imports what it needs itself. Arguments and result
    are JSON. `job`: further fields of the job (`image`, `cpu`, `memory`, ...); `python`: the
    command that starts Python in the job.
    """

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *FairleadSubmitOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **FairleadSubmitOperator.template_fields_renderers,
    }
    custom_operator_name: str = "@task.fairlead"
    returns_result = True

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        job: Mapping[str, Any] | None = None,
        python: str = "python3",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            python_callable=python_callable,
            op_args=op_args,
            op_kwargs=op_kwargs,
            jobs=dict(job or {}),
            **kwargs,
        )
        self.python = python

    def build_jobs(self, context: Context) -> list[Job]:
        """One job that calls the function."""
        (job,) = super().build_jobs(context)
        if job.array is not None:
            raise AirflowFailException(
                "@task.fairlead runs a job, not an array. Use FairleadSubmitOperator for an array,"
                " or expand() to call the function several times."
            )
        arguments = inspect.signature(self.python_callable).bind(*self.op_args, **self.op_kwargs)
        command = function_jobs.build_command(
            self.python,
            self.get_python_source(),
            self.python_callable.__name__,
            arguments.args,
            arguments.kwargs,
        )
        return [msgspec.structs.replace(job, command=command)]


def fairlead_task(
    python_callable: Callable[..., Any] | None = None,
    multiple_outputs: bool | None = None,
    **kwargs: Any,
) -> TaskDecorator:
    """The decorator; it has the arguments of `FairleadDecoratedOperator`."""
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=FairleadDecoratedOperator,
        **kwargs,
    )
