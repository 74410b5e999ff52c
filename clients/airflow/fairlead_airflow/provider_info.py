"""What this provider offers; Airflow reads it by the entry point `apache_airflow_provider`."""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The description of the provider, as Airflow's schema of providers requires it."""
    return {
        "package-name": "airflow-provider-fairlead",
        "name": "Fairlead",
        "description": "Run jobs on the batch scheduler Fairlead.",
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
