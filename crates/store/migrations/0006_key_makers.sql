-- A key that was made by another key falls with it.

ALTER TABLE api_keys ADD COLUMN made_by TEXT;

CREATE INDEX api_keys_by_maker ON api_keys (made_by) WHERE made_by IS NOT NULL;

PRAGMA user_version = 6;
