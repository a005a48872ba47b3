-- What calls have used of the operator's limits, in slices of time. `user_id` is empty if users are counted together.

CREATE TABLE limit_use (
    limit_name TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    subject    TEXT   NOT NULL,
    slice_ms   BIGINT NOT NULL,
    calls      BIGINT NOT NULL,
    amount     BIGINT NOT NULL,
    PRIMARY KEY (limit_name, user_id, subject, slice_ms)
) WITHOUT ROWID;

CREATE INDEX limit_use_user ON limit_use (user_id);

PRAGMA user_version = 16;
