-- Where data came from, for flow rules. `place` is a session, a conversation, a run, a client or a workspace of the user.
-- An execution that has not ended, or whose process was killed, has rows with its ID for the workspace that it may write.

CREATE TABLE sources (
    user_id      TEXT   NOT NULL,
    place        TEXT   NOT NULL,
    server       TEXT   NOT NULL,
    execution_id TEXT   NOT NULL DEFAULT '',
    labels       TEXT   NOT NULL,
    seen_at      BIGINT NOT NULL,
    PRIMARY KEY (user_id, place, server, execution_id)
);

CREATE TRIGGER sources_of_session AFTER DELETE ON sessions BEGIN
    DELETE FROM sources WHERE user_id = OLD.user_id AND place = 'session:' || OLD.session_id;
END;

CREATE TRIGGER sources_of_conversation AFTER DELETE ON conversations BEGIN
    DELETE FROM sources WHERE user_id = OLD.user_id AND place = 'conversation:' || OLD.conversation_id;
END;

CREATE TRIGGER sources_of_run AFTER DELETE ON runs BEGIN
    DELETE FROM sources WHERE user_id = OLD.user_id AND place = 'run:' || OLD.run_id;
END;

-- The servers that the value of a token came from. The value itself is in the vault, once it has left as a token.
CREATE TABLE value_sources (
    user_id TEXT   NOT NULL,
    token   TEXT   NOT NULL,
    server  TEXT   NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, token, server)
);

CREATE INDEX value_sources_by_time ON value_sources (user_id, seen_at);

-- What users have permanently approved although a flow rule asks. The digest is of the definition of the tool, the rule,
-- the sources and the kinds.
CREATE TABLE flow_approvals (
    user_id     TEXT   NOT NULL,
    digest      TEXT   NOT NULL,
    server      TEXT   NOT NULL,
    tool        TEXT   NOT NULL,
    rule        TEXT   NOT NULL,
    sources     TEXT   NOT NULL,
    approved_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, digest)
);

PRAGMA user_version = 15;
