-- Who may sign in over HTTP, and by what. Of every token only the SHA-256 is here.

CREATE TABLE users (
    id           TEXT   NOT NULL PRIMARY KEY,
    display_name TEXT,
    role         TEXT   NOT NULL,
    password     TEXT,
    disabled     BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    last_seen    BIGINT,
    issuer       TEXT,
    subject      TEXT,
    UNIQUE (issuer, subject)
);

CREATE TABLE api_keys (
    id         TEXT   NOT NULL PRIMARY KEY,
    digest     TEXT   NOT NULL UNIQUE,
    user_id    TEXT   NOT NULL REFERENCES users (id),
    name       TEXT   NOT NULL,
    scopes     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used  BIGINT,
    revoked_at BIGINT
);

CREATE INDEX api_keys_by_user ON api_keys (user_id, created_at, id);

CREATE TABLE browser_sessions (
    digest     TEXT   NOT NULL PRIMARY KEY,
    user_id    TEXT   NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    last_seen  BIGINT NOT NULL,
    by_link    BIGINT NOT NULL
);

CREATE INDEX browser_sessions_by_user ON browser_sessions (user_id);

CREATE TABLE sign_in_links (
    digest     TEXT   NOT NULL PRIMARY KEY,
    user_id    TEXT   NOT NULL REFERENCES users (id),
    expires_at BIGINT NOT NULL
);

PRAGMA user_version = 2;
