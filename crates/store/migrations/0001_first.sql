-- Plain types only: the same statements are to serve another database.
-- Times are milliseconds since 1970. An owner is `shared` or `user:<id>`.

CREATE TABLE server_tools (
    owner       TEXT   NOT NULL,
    server      TEXT   NOT NULL,
    fingerprint TEXT   NOT NULL,
    tools       TEXT   NOT NULL,
    listed_at   BIGINT NOT NULL,
    PRIMARY KEY (owner, server)
);

CREATE TABLE shapes (
    owner   TEXT   NOT NULL,
    server  TEXT   NOT NULL,
    tool    TEXT   NOT NULL,
    shape   TEXT   NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (owner, server, tool)
);

CREATE TABLE decisions (
    user_id    TEXT   NOT NULL,
    server     TEXT   NOT NULL,
    tool       TEXT   NOT NULL,
    definition TEXT   NOT NULL,
    decision   TEXT   NOT NULL,
    decided_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, server, tool)
);

-- key_id tells which master key sealed a row without telling the key.
CREATE TABLE secrets (
    owner  TEXT NOT NULL,
    name   TEXT NOT NULL,
    key_id TEXT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (owner, name)
);

CREATE TABLE executions (
    seq          INTEGER PRIMARY KEY,
    user_id      TEXT    NOT NULL,
    execution_id TEXT    NOT NULL,
    session_id   TEXT,
    started_at   BIGINT  NOT NULL,
    language     TEXT    NOT NULL,
    code         BLOB    NOT NULL,
    outcome      TEXT    NOT NULL,
    UNIQUE (user_id, execution_id)
);

CREATE INDEX executions_by_time ON executions (user_id, started_at, execution_id);

PRAGMA user_version = 1;
