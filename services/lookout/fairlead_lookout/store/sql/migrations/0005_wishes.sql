-- Why a job's run is to give way, from the wish until the run ends and has it in its own row
-- (docs/decisions/0022): a wish for 100,000 jobs changes one row of each.
ALTER TABLE fairlead_lookout.jobs
    ADD COLUMN stop_cause text COLLATE "C",
    ADD COLUMN stop_reason text;

-- Room for a second version of every row of a page: a transaction that changes all of them then
-- touches no index, unless it changes a state. New pages only.
ALTER TABLE fairlead_lookout.jobs SET (fillfactor = 45);
ALTER TABLE fairlead_lookout.runs SET (fillfactor = 45);
