-- What programs would change, until a person approves it. Content and progress are sealed with a key that is derived from
-- the master key.

CREATE TABLE plans (
    plan_id    TEXT   NOT NULL PRIMARY KEY,
    user_id    TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    instance   TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    content    BLOB   NOT NULL,
    progress   BLOB   NOT NULL
);

CREATE INDEX plans_by_age ON plans (user_id, created_at);

PRAGMA user_version = 12;
