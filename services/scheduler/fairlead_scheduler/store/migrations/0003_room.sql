-- Room for a second version of every row of a page: a checkpoint that changes all of them (a request
-- about many jobs does) then touches no index. New pages only.
ALTER TABLE fairlead_scheduler.jobs SET (fillfactor = 45);
