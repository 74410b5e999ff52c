"""The pages of job sets and jobs. On the page of a job: its events, its runs, and advice."""
