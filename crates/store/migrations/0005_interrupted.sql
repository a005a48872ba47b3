-- An execution is written down while it runs, so that it is known when the process that ran it is gone.
-- instance: the process that runs it; nobody else may tell that it has ended while that lives.

ALTER TABLE executions ADD COLUMN state TEXT NOT NULL DEFAULT 'done';
ALTER TABLE executions ADD COLUMN instance TEXT;

CREATE INDEX executions_running ON executions (instance) WHERE state = 'running';

PRAGMA user_version = 5;
