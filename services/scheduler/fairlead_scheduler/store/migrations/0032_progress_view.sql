-- For lookout, which shows whether the log can continue the checkpoint: its log and positions.

CREATE VIEW fairlead_scheduler.progress AS
    SELECT log_id, positions FROM fairlead_scheduler.view;
