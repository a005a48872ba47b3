//! The versions of the schema.

/// The migrations in order. Each sets its number as the version of the file, in the same transaction.
pub(crate) const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "first", include_str!("../migrations/0001_first.sql")),
    (2, "accounts", include_str!("../migrations/0002_accounts.sql")),
    (3, "sessions", include_str!("../migrations/0003_sessions.sql")),
    (4, "artifacts", include_str!("../migrations/0004_artifacts.sql")),
    (5, "interrupted", include_str!("../migrations/0005_interrupted.sql")),
    (6, "key makers", include_str!("../migrations/0006_key_makers.sql")),
    (7, "task numbers", include_str!("../migrations/0007_task_numbers.sql")),
    (8, "runs", include_str!("../migrations/0008_runs.sql")),
    (9, "approvals", include_str!("../migrations/0009_approvals.sql")),
    (10, "token use", include_str!("../migrations/0010_token_use.sql")),
    (11, "vault values", include_str!("../migrations/0011_vault_values.sql")),
    (12, "plans", include_str!("../migrations/0012_plans.sql")),
    (13, "argument decisions", include_str!("../migrations/0013_argument_decisions.sql")),
    (14, "group approvals", include_str!("../migrations/0014_group_approvals.sql")),
    (15, "sources", include_str!("../migrations/0015_sources.sql")),
    (16, "limit use", include_str!("../migrations/0016_limit_use.sql")),
    (17, "queues", include_str!("../migrations/0017_queues.sql")),
];

/// The newest schema version that this version supports.
pub fn schema_version() -> i64 {
    MIGRATIONS.last().map_or(0, |(version, ..)| *version)
}
