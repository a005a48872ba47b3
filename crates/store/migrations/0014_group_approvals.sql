-- Members of groups approve calls of others. caller: the user whose code made the call, if that is not user_id.

ALTER TABLE approvals ADD COLUMN caller TEXT;

CREATE INDEX approvals_by_caller ON approvals (caller) WHERE caller IS NOT NULL;

PRAGMA user_version = 13;
