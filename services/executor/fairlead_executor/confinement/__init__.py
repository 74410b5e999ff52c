"""Confinement of jobs: what keeps a job on this machine from the installation that runs it."""
