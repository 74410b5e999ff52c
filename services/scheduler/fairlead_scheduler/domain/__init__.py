"""What the job table and the engine both know of jobs. Pure."""
