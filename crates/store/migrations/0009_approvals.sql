-- Questions whether a tool may be called, with what a person answered; also those that no one answered in time.
-- answered_by: how the person was authenticated; null if no one answered.

CREATE TABLE approvals (
    user_id      TEXT   NOT NULL,
    approval_id  TEXT   NOT NULL,
    server       TEXT   NOT NULL,
    tool         TEXT   NOT NULL,
    arguments    TEXT   NOT NULL,
    reason       TEXT   NOT NULL,
    session_id   TEXT,
    execution_id TEXT   NOT NULL,
    origin       TEXT,
    asked_at     BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL,
    outcome      TEXT   NOT NULL,
    answered_by  TEXT,
    PRIMARY KEY (user_id, approval_id)
);

CREATE INDEX approvals_by_time ON approvals (user_id, ended_at, approval_id);

PRAGMA user_version = 9;
