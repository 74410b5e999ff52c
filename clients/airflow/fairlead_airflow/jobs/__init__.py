"""What the provider does with jobs, apart from tasks: names, events, logs and results.

Airflow stores no path of these modules.
"""
