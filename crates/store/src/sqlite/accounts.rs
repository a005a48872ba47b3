//! Accounts as rows.

use super::SqliteStore;
use crate::accounts::{check_hash, check_key, check_user, scopes_text};
use crate::moment::{from_millis, to_millis};
use crate::{
    Accounts, ApiKey, Belongings, BrowserSession, ForeignIdentity, Owner, Renamed, Role, SignInLink, StoreError,
    TokenDigest, User,
};
use async_trait::async_trait;
use coracle_types::{Secret, UserId};
use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;
use std::fmt::Display;
use std::time::SystemTime;

type UserRow = (String, Option<String>, String, Option<String>, bool, i64, Option<i64>, Option<String>, Option<String>);
type KeyRow = (String, String, String, String, String, i64, Option<i64>, Option<i64>, Option<i64>, Option<String>);
type SessionRow = (String, i64, i64, i64, bool);

/// The beginning of statements that select users.
macro_rules! select_users {
    ($rest:literal) => {
        concat!(
            "SELECT id, display_name, role, password, disabled, created_at, last_seen, issuer, subject FROM users ",
            $rest
        )
    };
}

/// The beginning of statements that select keys.
macro_rules! select_keys {
    ($rest:literal) => {
        concat!(
            "SELECT id, digest, user_id, name, scopes, created_at, expires_at, last_used, revoked_at, made_by ",
            "FROM api_keys ",
            $rest
        )
    };
}

#[async_trait]
impl Accounts for SqliteStore {
    async fn add_user(&self, user: &User) -> Result<bool, StoreError> {
        check_user(user)?;
        let written = sqlx::query(
            "INSERT INTO users (id, display_name, role, password, disabled, created_at, last_seen, issuer, subject)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
        )
        .bind(user.id.as_str())
        .bind(&user.display_name)
        .bind(user.role.as_str())
        .bind(user.password.as_ref().map(|hash| hash.expose().to_owned()))
        .bind(user.disabled)
        .bind(to_millis(user.created_at))
        .bind(user.last_seen.map(to_millis))
        .bind(user.foreign.as_ref().map(|foreign| foreign.issuer.clone()))
        .bind(user.foreign.as_ref().map(|foreign| foreign.subject.clone()))
        .execute(&mut *self.writer().await?)
        .await;
        let done = written.map_err(self.failed("add a user"))?.rows_affected() > 0;
        self.durable.wait().await?;
        Ok(done)
    }

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        let row: Option<UserRow> = sqlx::query_as(select_users!("WHERE id = ?1"))
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(self.failed("read a user"))?;
        row.map(user).transpose()
    }

    async fn user_of(&self, foreign: &ForeignIdentity) -> Result<Option<User>, StoreError> {
        let row: Option<UserRow> = sqlx::query_as(select_users!("WHERE issuer = ?1 AND subject = ?2"))
            .bind(&foreign.issuer)
            .bind(&foreign.subject)
            .fetch_optional(&self.pool)
            .await
            .map_err(self.failed("read a user"))?;
        row.map(user).transpose()
    }

    async fn users(&self) -> Result<Vec<User>, StoreError> {
        let rows: Vec<UserRow> = sqlx::query_as(select_users!("ORDER BY id"))
            .fetch_all(&self.pool)
            .await
            .map_err(self.failed("read the users"))?;
        rows.into_iter().map(user).collect()
    }

    async fn has_users(&self) -> Result<bool, StoreError> {
        let any = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM users)").fetch_one(&self.pool).await;
        any.map_err(self.failed("look for users"))
    }

    async fn has_data(&self, id: &UserId) -> Result<bool, StoreError> {
        let failed = self.failed("look for what belongs to a user");
        let mut connection = self.pool.acquire().await.map_err(&failed)?;
        has_data(&mut connection, id).await.map_err(failed)
    }

    async fn rename_user(&self, from: &UserId, to: &UserId, belongings: Belongings) -> Result<Renamed, StoreError> {
        // Before the transaction, because a new master key is created outside of it.
        let secrets = match belongings {
            Belongings::All => self.vault.resealed(self, from, to).await?,
            Belongings::WithoutSecrets => Vec::new(),
        };
        let failed = self.failed("give a user another name");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let connection = &mut *transaction;
        let is_account = |id: &UserId| {
            sqlx::query_scalar::<_, bool>("SELECT EXISTS (SELECT 1 FROM users WHERE id = ?1)").bind(id.to_string())
        };
        let from_account = is_account(from).fetch_one(&mut *connection).await.map_err(&failed)?;
        let to_account = is_account(to).fetch_one(&mut *connection).await.map_err(&failed)?;
        if !from_account && !has_data(&mut *connection, from).await.map_err(&failed)? {
            return Ok(Renamed::Unknown);
        }
        if (from_account && to_account) || has_data(&mut *connection, to).await.map_err(&failed)? {
            return Ok(Renamed::Taken);
        }
        // Rows refer to each other, so foreign keys are checked when all of them are changed.
        sqlx::query("PRAGMA defer_foreign_keys = ON").execute(&mut *connection).await.map_err(&failed)?;
        sign_out(&mut *connection, from).await.map_err(&failed)?;
        for statement in RENAMES {
            let statement = sqlx::query(*statement).bind(from.as_str()).bind(to.as_str());
            statement.execute(&mut *connection).await.map_err(&failed)?;
        }
        let (old, new) = (Owner::User(from.clone()).to_string(), Owner::User(to.clone()).to_string());
        for statement in OWNER_RENAMES {
            sqlx::query(*statement).bind(&old).bind(&new).execute(&mut *connection).await.map_err(&failed)?;
        }
        if belongings == Belongings::All {
            // Without the data key, which is a secret, they could not be decrypted.
            let values = sqlx::query("UPDATE vault_values SET user_id = ?2 WHERE user_id = ?1");
            let moved = values.bind(from.as_str()).bind(to.as_str()).execute(&mut *connection).await;
            moved.map_err(&failed)?;
        }
        for (name, sealed) in secrets {
            let moved = sqlx::query("UPDATE secrets SET owner = ?3, sealed = ?4 WHERE owner = ?1 AND name = ?2");
            let moved = moved.bind(&old).bind(name).bind(&new).bind(sealed);
            moved.execute(&mut *connection).await.map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)?;
        self.durable.wait().await?;
        Ok(Renamed::Done)
    }

    async fn set_password(&self, id: &UserId, hash: Option<&Secret>) -> Result<bool, StoreError> {
        hash.map_or(Ok(()), check_hash)?;
        let failed = self.failed("change a password");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let changed = sqlx::query("UPDATE users SET password = ?2 WHERE id = ?1")
            .bind(id.as_str())
            .bind(hash.map(|hash| hash.expose().to_owned()))
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        sign_out(&mut transaction, id).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await?;
        Ok(changed.rows_affected() > 0)
    }

    async fn set_disabled(&self, id: &UserId, disabled: bool) -> Result<bool, StoreError> {
        let failed = self.failed("disable or enable a user");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let changed = sqlx::query("UPDATE users SET disabled = ?2 WHERE id = ?1")
            .bind(id.as_str())
            .bind(disabled)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        if disabled {
            sign_out(&mut transaction, id).await.map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await?;
        Ok(changed.rows_affected() > 0)
    }

    async fn set_role(&self, id: &UserId, role: Role) -> Result<bool, StoreError> {
        let changed = sqlx::query("UPDATE users SET role = ?2 WHERE id = ?1")
            .bind(id.as_str())
            .bind(role.as_str())
            .execute(&mut *self.writer().await?)
            .await
            .map_err(self.failed("change what a user may do"))?;
        self.durable.wait().await?;
        Ok(changed.rows_affected() > 0)
    }

    async fn user_seen(&self, id: &UserId, at: SystemTime) -> Result<(), StoreError> {
        let written = sqlx::query("UPDATE users SET last_seen = ?2 WHERE id = ?1")
            .bind(id.as_str())
            .bind(to_millis(at))
            .execute(&mut *self.writer().await?)
            .await;
        written.map(drop).map_err(self.failed("note that a user was here"))
    }

    async fn add_key(&self, key: &ApiKey) -> Result<bool, StoreError> {
        check_key(key)?;
        let written = sqlx::query(
            "INSERT INTO api_keys
                 (id, digest, user_id, name, scopes, created_at, expires_at, last_used, revoked_at, made_by)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
             WHERE EXISTS (SELECT 1 FROM users WHERE id = ?3)
               AND (?10 IS NULL
                    OR EXISTS (SELECT 1 FROM api_keys WHERE id = ?10 AND user_id = ?3 AND revoked_at IS NULL))
             ON CONFLICT DO NOTHING",
        )
        .bind(&key.id)
        .bind(key.digest.as_str())
        .bind(key.user.as_str())
        .bind(&key.name)
        .bind(scopes_text(&key.scopes))
        .bind(to_millis(key.created_at))
        .bind(key.expires_at.map(to_millis))
        .bind(key.last_used.map(to_millis))
        .bind(key.revoked_at.map(to_millis))
        .bind(&key.made_by)
        .execute(&mut *self.writer().await?)
        .await;
        let done = written.map_err(self.failed("add an API key"))?.rows_affected() > 0;
        self.durable.wait().await?;
        Ok(done)
    }

    async fn key(&self, digest: &TokenDigest) -> Result<Option<ApiKey>, StoreError> {
        let row: Option<KeyRow> = sqlx::query_as(select_keys!("WHERE digest = ?1"))
            .bind(digest.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(self.failed("read an API key"))?;
        row.map(key).transpose()
    }

    async fn keys(&self, user: &UserId) -> Result<Vec<ApiKey>, StoreError> {
        let rows: Vec<KeyRow> = sqlx::query_as(select_keys!("WHERE user_id = ?1 ORDER BY created_at, id"))
            .bind(user.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(self.failed("read API keys"))?;
        rows.into_iter().map(key).collect()
    }

    async fn revoke_key(&self, user: Option<&UserId>, id: &str, at: SystemTime) -> Result<bool, StoreError> {
        let changed = sqlx::query(
            "WITH RECURSIVE fallen (id) AS (
                 SELECT id FROM api_keys WHERE id = ?1 AND revoked_at IS NULL AND (?2 IS NULL OR user_id = ?2)
                 UNION SELECT made.id FROM api_keys AS made JOIN fallen ON made.made_by = fallen.id
             )
             UPDATE api_keys SET revoked_at = ?3 WHERE revoked_at IS NULL AND id IN (SELECT id FROM fallen)",
        )
        .bind(id)
        .bind(user.map(|user| user.as_str().to_owned()))
        .bind(to_millis(at))
        .execute(&mut *self.writer().await?)
        .await;
        let done = changed.map_err(self.failed("revoke an API key"))?.rows_affected() > 0;
        self.durable.wait().await?;
        Ok(done)
    }

    async fn key_used(&self, digest: &TokenDigest, at: SystemTime) -> Result<(), StoreError> {
        let written = sqlx::query("UPDATE api_keys SET last_used = ?2 WHERE digest = ?1")
            .bind(digest.as_str())
            .bind(to_millis(at))
            .execute(&mut *self.writer().await?)
            .await;
        written.map(drop).map_err(self.failed("note that an API key was used"))
    }

    async fn add_browser_session(&self, session: &BrowserSession) -> Result<bool, StoreError> {
        let written = sqlx::query(
            "INSERT INTO browser_sessions (digest, user_id, created_at, expires_at, last_seen, by_link)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS (SELECT 1 FROM users WHERE id = ?2 AND NOT disabled)",
        )
        .bind(session.digest.as_str())
        .bind(session.user.as_str())
        .bind(to_millis(session.created_at))
        .bind(to_millis(session.expires_at))
        .bind(to_millis(session.last_seen))
        .bind(session.by_link)
        .execute(&mut *self.writer().await?)
        .await;
        let done = written.map_err(self.failed("begin a session"))?.rows_affected() > 0;
        self.durable.wait().await?;
        Ok(done)
    }

    async fn browser_session(&self, digest: &TokenDigest) -> Result<Option<BrowserSession>, StoreError> {
        let row: Option<SessionRow> = sqlx::query_as(
            "SELECT user_id, created_at, expires_at, last_seen, by_link FROM browser_sessions WHERE digest = ?1",
        )
        .bind(digest.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(self.failed("read a session"))?;
        row.map(|(user, created_at, expires_at, last_seen, by_link)| {
            Ok(BrowserSession {
                digest: digest.clone(),
                user: user_id(&user)?,
                created_at: from_millis(created_at),
                expires_at: from_millis(expires_at),
                last_seen: from_millis(last_seen),
                by_link,
            })
        })
        .transpose()
    }

    async fn browser_session_seen(&self, digest: &TokenDigest, at: SystemTime) -> Result<(), StoreError> {
        let written = sqlx::query("UPDATE browser_sessions SET last_seen = ?2 WHERE digest = ?1")
            .bind(digest.as_str())
            .bind(to_millis(at))
            .execute(&mut *self.writer().await?)
            .await;
        written.map(drop).map_err(self.failed("note that a session was used"))
    }

    async fn end_browser_session(&self, digest: &TokenDigest) -> Result<bool, StoreError> {
        let deleted = sqlx::query("DELETE FROM browser_sessions WHERE digest = ?1")
            .bind(digest.as_str())
            .execute(&mut *self.writer().await?)
            .await
            .map_err(self.failed("end a session"))?;
        self.durable.wait().await?;
        Ok(deleted.rows_affected() > 0)
    }

    async fn add_link(&self, link: &SignInLink) -> Result<bool, StoreError> {
        let written = sqlx::query(
            "INSERT INTO sign_in_links (digest, user_id, expires_at)
             SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM users WHERE id = ?2 AND NOT disabled)",
        )
        .bind(link.digest.as_str())
        .bind(link.user.as_str())
        .bind(to_millis(link.expires_at))
        .execute(&mut *self.writer().await?)
        .await;
        Ok(written.map_err(self.failed("keep a sign-in link"))?.rows_affected() > 0)
    }

    async fn use_link(&self, digest: &TokenDigest, now: SystemTime) -> Result<Option<UserId>, StoreError> {
        // One statement, so that only one of several concurrent callers gets the row.
        let used: Option<(String, i64)> =
            sqlx::query_as("DELETE FROM sign_in_links WHERE digest = ?1 RETURNING user_id, expires_at")
                .bind(digest.as_str())
                .fetch_optional(&mut *self.writer().await?)
                .await
                .map_err(self.failed("use a sign-in link"))?;
        self.durable.wait().await?;
        let used = used.filter(|(_, expires_at)| *expires_at > to_millis(now));
        used.map(|(user, _)| user_id(&user)).transpose()
    }

    async fn forget_expired(&self, now: SystemTime) -> Result<(), StoreError> {
        let failed = self.failed("forget what has expired");
        for statement in
            ["DELETE FROM browser_sessions WHERE expires_at <= ?1", "DELETE FROM sign_in_links WHERE expires_at <= ?1"]
        {
            sqlx::query(statement).bind(to_millis(now)).execute(&mut *self.writer().await?).await.map_err(&failed)?;
        }
        Ok(())
    }
}

/// Every table with the name of a user.
const RENAMES: &[&str] = &[
    "UPDATE users SET id = ?2 WHERE id = ?1",
    "UPDATE api_keys SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE approvals SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE decisions SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE approvals SET caller = ?2 WHERE caller = ?1",
    "UPDATE executions SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE sessions SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE tasks SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE checkpoints SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE artifacts SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE artifact_versions SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE conversations SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE runs SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE items SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE steps SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE run_calls SET user_id = ?2 WHERE user_id = ?1",
    "DELETE FROM sources WHERE user_id = ?2 AND user_id <> ?1",
    "UPDATE sources SET user_id = ?2 WHERE user_id = ?1",
    "DELETE FROM value_sources WHERE user_id = ?2 AND user_id <> ?1",
    "UPDATE value_sources SET user_id = ?2 WHERE user_id = ?1",
    "DELETE FROM flow_approvals WHERE user_id = ?2 AND user_id <> ?1",
    "UPDATE flow_approvals SET user_id = ?2 WHERE user_id = ?1",
    "DELETE FROM token_use WHERE user_id = ?2 AND user_id <> ?1",
    "UPDATE token_use SET user_id = ?2 WHERE user_id = ?1",
    "UPDATE plans SET user_id = ?2 WHERE user_id = ?1",
    "DELETE FROM limit_use WHERE user_id = ?2 AND user_id <> ?1",
    "UPDATE limit_use SET user_id = ?2 WHERE user_id = ?1",
];

/// Every table with an owner, except the secrets, which are encrypted for it.
const OWNER_RENAMES: &[&str] = &[
    "DELETE FROM server_tools WHERE owner = ?2 AND owner <> ?1",
    "UPDATE server_tools SET owner = ?2 WHERE owner = ?1",
    "DELETE FROM shapes WHERE owner = ?2 AND owner <> ?1",
    "UPDATE shapes SET owner = ?2 WHERE owner = ?1",
];

async fn has_data(connection: &mut SqliteConnection, id: &UserId) -> Result<bool, sqlx::Error> {
    let found = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM executions WHERE user_id = ?1)
             OR EXISTS (SELECT 1 FROM sessions WHERE user_id = ?1)
             OR EXISTS (SELECT 1 FROM artifacts WHERE user_id = ?1)
             OR EXISTS (SELECT 1 FROM decisions WHERE user_id = ?1)
             OR EXISTS (SELECT 1 FROM conversations WHERE user_id = ?1)
             OR EXISTS (SELECT 1 FROM runs WHERE user_id = ?1)
             OR EXISTS (SELECT 1 FROM approvals WHERE user_id = ?1)
             OR EXISTS (SELECT 1 FROM plans WHERE user_id = ?1)
             OR EXISTS (SELECT 1 FROM secrets WHERE owner = ?2)",
    );
    found.bind(id.as_str()).bind(Owner::User(id.clone()).to_string()).fetch_one(connection).await
}

/// Ends the sessions and links of a user.
async fn sign_out(connection: &mut SqliteConnection, id: &UserId) -> Result<(), sqlx::Error> {
    for statement in ["DELETE FROM browser_sessions WHERE user_id = ?1", "DELETE FROM sign_in_links WHERE user_id = ?1"]
    {
        sqlx::query(statement).bind(id.as_str()).execute(&mut *connection).await?;
    }
    Ok(())
}

fn damaged(what: impl Into<String>, reason: impl Display) -> StoreError {
    StoreError::Damaged { what: what.into(), reason: reason.to_string() }
}

fn user_id(text: &str) -> Result<UserId, StoreError> {
    UserId::new(text).map_err(|error| damaged("user ID", error))
}

fn user(row: UserRow) -> Result<User, StoreError> {
    let (id, display_name, role, password, disabled, created_at, last_seen, issuer, subject) = row;
    Ok(User {
        role: role.parse().map_err(|error| damaged(format!("role of user {id:?}"), error))?,
        id: user_id(&id)?,
        display_name,
        password: password.map(Secret::new),
        disabled,
        created_at: from_millis(created_at),
        last_seen: last_seen.map(from_millis),
        foreign: issuer.zip(subject).map(|(issuer, subject)| ForeignIdentity { issuer, subject }),
    })
}

fn key(
    (id, digest, user, name, scopes, created_at, expires_at, last_used, revoked_at, made_by): KeyRow,
) -> Result<ApiKey, StoreError> {
    let scopes: Result<_, _> = scopes.split_whitespace().map(str::parse).collect();
    Ok(ApiKey {
        scopes: scopes.map_err(|error| damaged(format!("scopes of key {id:?}"), error))?,
        id,
        digest: TokenDigest::from_row(digest),
        user: user_id(&user)?,
        name,
        created_at: from_millis(created_at),
        expires_at: expires_at.map(from_millis),
        last_used: last_used.map(from_millis),
        revoked_at: revoked_at.map(from_millis),
        made_by,
    })
}
