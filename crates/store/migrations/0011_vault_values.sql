-- The values that tokens such as `[EMAIL_…]` stand for. They are sealed with the data key of the user, which is one of
-- the secrets of the user: without it, nothing here can be read.

CREATE TABLE vault_values (
    user_id   TEXT   NOT NULL,
    token     TEXT   NOT NULL,
    sealed    BLOB   NOT NULL,
    last_used BIGINT NOT NULL,
    PRIMARY KEY (user_id, token)
);

CREATE INDEX vault_values_by_use ON vault_values (user_id, last_used);

PRAGMA user_version = 11;
