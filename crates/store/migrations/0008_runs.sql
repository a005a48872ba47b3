-- Conversations with the agent and its runs. `position` is the order in which items were added.

CREATE TABLE conversations (
    user_id         TEXT   NOT NULL,
    conversation_id TEXT   NOT NULL,
    title           TEXT,
    metadata        TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    changed_at      BIGINT NOT NULL,
    PRIMARY KEY (user_id, conversation_id)
);

CREATE INDEX conversations_by_change ON conversations (user_id, changed_at, conversation_id);

-- instance: the process that runs it; nobody else may tell that it has ended while that lives.
CREATE TABLE runs (
    user_id         TEXT   NOT NULL,
    run_id          TEXT   NOT NULL,
    conversation_id TEXT,
    previous_id     TEXT,
    is_background   BIGINT NOT NULL,
    request         TEXT   NOT NULL,
    state           TEXT   NOT NULL,
    instance        TEXT   NOT NULL,
    attempts        BIGINT NOT NULL DEFAULT 1,
    created_at      BIGINT NOT NULL,
    ended_at        BIGINT,
    outcome         TEXT,
    PRIMARY KEY (user_id, run_id),
    FOREIGN KEY (user_id, conversation_id) REFERENCES conversations (user_id, conversation_id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX runs_under_way ON runs (user_id, conversation_id) WHERE state = 'running';
CREATE INDEX runs_by_instance ON runs (instance) WHERE state = 'running';
CREATE INDEX runs_by_conversation ON runs (user_id, conversation_id);
CREATE INDEX runs_by_time ON runs (user_id, created_at, run_id);

CREATE TABLE items (
    position        INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id         TEXT   NOT NULL,
    item_id         TEXT   NOT NULL,
    conversation_id TEXT,
    run_id          TEXT,
    is_output       BIGINT NOT NULL,
    content         TEXT   NOT NULL,
    UNIQUE (user_id, item_id),
    FOREIGN KEY (user_id, conversation_id) REFERENCES conversations (user_id, conversation_id) ON DELETE CASCADE,
    FOREIGN KEY (user_id, run_id) REFERENCES runs (user_id, run_id) ON DELETE CASCADE
);

CREATE INDEX items_by_conversation ON items (user_id, conversation_id, position) WHERE conversation_id IS NOT NULL;
CREATE INDEX items_by_run ON items (user_id, run_id, position) WHERE run_id IS NOT NULL;

CREATE TABLE steps (
    user_id  TEXT   NOT NULL,
    run_id   TEXT   NOT NULL,
    number   BIGINT NOT NULL,
    kind     TEXT   NOT NULL,
    subject  TEXT   NOT NULL,
    begun_at BIGINT NOT NULL,
    ended_at BIGINT,
    outcome  TEXT,
    PRIMARY KEY (user_id, run_id, number),
    FOREIGN KEY (user_id, run_id) REFERENCES runs (user_id, run_id) ON DELETE CASCADE
);

-- The calls of code in a run, kept until the run ends.
CREATE TABLE run_calls (
    user_id TEXT   NOT NULL,
    run_id  TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    number  BIGINT NOT NULL,
    call    TEXT   NOT NULL,
    answer  TEXT,
    PRIMARY KEY (user_id, run_id, subject, number),
    FOREIGN KEY (user_id, run_id) REFERENCES runs (user_id, run_id) ON DELETE CASCADE
);

PRAGMA user_version = 8;
