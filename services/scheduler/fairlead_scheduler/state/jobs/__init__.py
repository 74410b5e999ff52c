"""The tables of the view: live jobs, their ids and submissions, ended jobs, groups and arrays."""
