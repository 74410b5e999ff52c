-- How far the request about many jobs at `position` has been folded (JSON), while that is not all
-- of it: such a request is folded in several transactions.
ALTER TABLE fairlead_lookout.progress ADD COLUMN within text;

-- The day on which a shape was last seen on a job that changed: what nobody has used for longer
-- than jobs are kept is forgotten with them.
ALTER TABLE fairlead_lookout.shapes ADD COLUMN used date NOT NULL DEFAULT current_date;
CREATE INDEX shapes_used ON fairlead_lookout.shapes (used);
