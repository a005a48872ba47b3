-- The log of sessions. A label names one session of a user that has not ended; numbers count a user's sessions, and the
-- tasks and checkpoints of a session.

CREATE TABLE sessions (
    user_id     TEXT   NOT NULL,
    session_id  TEXT   NOT NULL,
    number      BIGINT NOT NULL,
    label       TEXT,
    started_at  BIGINT NOT NULL,
    last_used   BIGINT NOT NULL,
    ended_at    BIGINT,
    tasks       BIGINT NOT NULL DEFAULT 0,
    checkpoints BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, session_id),
    UNIQUE (user_id, number)
);

CREATE UNIQUE INDEX sessions_by_label ON sessions (user_id, label) WHERE ended_at IS NULL;
CREATE INDEX sessions_by_use ON sessions (user_id, last_used);

-- instance: the process that runs it; nobody else may tell that it has ended while that lives.
CREATE TABLE tasks (
    user_id      TEXT   NOT NULL,
    session_id   TEXT   NOT NULL,
    number       BIGINT NOT NULL,
    execution_id TEXT   NOT NULL,
    instance     TEXT   NOT NULL,
    description  TEXT,
    language     TEXT   NOT NULL,
    code         BLOB   NOT NULL,
    vars         TEXT,
    state        TEXT   NOT NULL,
    started_at   BIGINT NOT NULL,
    ended_at     BIGINT,
    outcome      TEXT,
    recording    TEXT,
    PRIMARY KEY (user_id, session_id, number),
    FOREIGN KEY (user_id, session_id) REFERENCES sessions (user_id, session_id) ON DELETE CASCADE
);

CREATE INDEX tasks_running ON tasks (instance) WHERE state = 'running';

CREATE TABLE checkpoints (
    user_id    TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    step       TEXT   NOT NULL,
    context    TEXT   NOT NULL,
    last_task  BIGINT NOT NULL,
    made_at    BIGINT NOT NULL,
    PRIMARY KEY (user_id, session_id, number),
    FOREIGN KEY (user_id, session_id) REFERENCES sessions (user_id, session_id) ON DELETE CASCADE
);

PRAGMA user_version = 3;
