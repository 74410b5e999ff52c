"""What this provider offers; Airflow reads it by the entry point `apache_airflow_provider`."""

from typing import Any, Final

_NAME: Final = "Fairlead"


def get_provider_info() -> dict[str, Any]:
    """The description of the provider, as Airflow's schema of providers requires it."""
    return {
        "package-name": "airflow-provider-fairlead",
        "name": _NAME,
        "description": "Run jobs on the batch scheduler Fairlead.",
        "integrations": [{"integration-name": _NAME, "tags": ["software"]}],
        "operators": [_list_modules("operator", "mapping")],
        "sensors": [_list_modules("sensor")],
        "hooks": [_list_modules("hook")],
        "triggers": [_list_modules("trigger", "map_trigger")],
        "connection-types": [
            {
                "connection-type": "fairlead",
                "hook-class-name": "fairlead_airflow.hook.FairleadHook",
                "hook-name": "Fairlead",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "extra"],
                    "relabeling": {"host": "Address", "password": "Token"},
                    "placeholders": {"host": "https://fairlead.example.org", "password": "fl_..."},
                },
            }
        ],
        "task-decorators": [
            {"class-name": "fairlead_airflow.decorator.fairlead_task", "name": "fairlead"}
        ],
        "extra-links": ["fairlead_airflow.links.JobSetLink"],
    }


def _list_modules(*names: str) -> dict[str, Any]:
    modules = [f"fairlead_airflow.{name}" for name in names]
    return {"integration-name": _NAME, "python-modules": modules}
