-- For submit: the position that lookout reads next, of each partition of fairlead.jobs.
CREATE VIEW fairlead_lookout.view_positions AS
    SELECT partition, position FROM fairlead_lookout.progress;
