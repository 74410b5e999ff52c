-- For submit: whether somebody has requested to cancel a group. A view can have new columns only last.
CREATE OR REPLACE VIEW fairlead_lookout.known_groups AS
    SELECT g.id AS group_id, g.queue, g.job_set, g.client_id, g.digest, g.terms, g.state, g.labels,
           EXISTS (
               SELECT FROM fairlead_lookout.group_events e
               WHERE e.group_id = g.id AND e.type = 'groupCancelling'
           ) AS is_cancelling
    FROM fairlead_lookout.groups g;
