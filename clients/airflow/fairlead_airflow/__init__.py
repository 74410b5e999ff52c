"""Airflow operators, triggers, sensors and hooks that run jobs on Fairlead."""
