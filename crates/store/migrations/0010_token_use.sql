-- The tokens of language models that a user has used, by day: days since 1970 in UTC.

CREATE TABLE token_use (
    user_id TEXT   NOT NULL,
    day     BIGINT NOT NULL,
    tokens  BIGINT NOT NULL,
    PRIMARY KEY (user_id, day)
);

PRAGMA user_version = 10;
