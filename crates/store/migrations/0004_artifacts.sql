-- An artifact is a name of a user; each execution that writes it adds a version. `latest` is the highest number ever
-- given, so that none is given twice. What a version holds is a file, named after its execution and its artifact.

CREATE TABLE artifacts (
    user_id     TEXT   NOT NULL,
    artifact_id TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    latest      BIGINT NOT NULL,
    changed_at  BIGINT NOT NULL,
    PRIMARY KEY (user_id, artifact_id),
    UNIQUE (user_id, name)
);

CREATE INDEX artifacts_by_time ON artifacts (user_id, changed_at, artifact_id);

CREATE TABLE artifact_versions (
    user_id      TEXT   NOT NULL,
    artifact_id  TEXT   NOT NULL,
    version      BIGINT NOT NULL,
    execution_id TEXT   NOT NULL,
    session_id   TEXT,
    mime         TEXT   NOT NULL,
    bytes        BIGINT NOT NULL,
    charged      BIGINT NOT NULL,
    sha256       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    preview      TEXT,
    PRIMARY KEY (user_id, artifact_id, version),
    FOREIGN KEY (user_id, artifact_id) REFERENCES artifacts (user_id, artifact_id) ON DELETE CASCADE
);

CREATE INDEX artifact_versions_by_execution ON artifact_versions (user_id, execution_id);
CREATE INDEX artifact_versions_by_charge ON artifact_versions (user_id, charged);

PRAGMA user_version = 4;
