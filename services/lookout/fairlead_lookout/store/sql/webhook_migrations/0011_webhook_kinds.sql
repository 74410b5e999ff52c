-- What a webhook sends to: a program, Slack, e-mail or Airflow. `options`: JSON, what only some kinds
-- have; `credentials`: JSON, name -> encrypted value. `url` is empty for email.
ALTER TABLE fairlead_webhooks.webhooks
    ADD COLUMN kind text COLLATE "C" NOT NULL DEFAULT 'webhook',
    ADD COLUMN options text NOT NULL DEFAULT '{}',
    ADD COLUMN credentials text NOT NULL DEFAULT '{}';
