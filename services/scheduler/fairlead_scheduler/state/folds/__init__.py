"""How each event of `fairlead.jobs` changes the job table: pure."""
