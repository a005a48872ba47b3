-- Decisions about a tool can be bound to the arguments of its calls: a keyed digest of them, or '' for all arguments.

CREATE TABLE new_decisions (
    user_id    TEXT   NOT NULL,
    server     TEXT   NOT NULL,
    tool       TEXT   NOT NULL,
    arguments  TEXT   NOT NULL DEFAULT '',
    definition TEXT   NOT NULL,
    decision   TEXT   NOT NULL,
    decided_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, server, tool, arguments)
);

INSERT INTO new_decisions (user_id, server, tool, definition, decision, decided_at)
SELECT user_id, server, tool, definition, decision, decided_at FROM decisions;

DROP TABLE decisions;

ALTER TABLE new_decisions RENAME TO decisions;

PRAGMA user_version = 12;
