"""Routes of what schedules jobs: clusters, reports of the scheduler, shares over time."""
