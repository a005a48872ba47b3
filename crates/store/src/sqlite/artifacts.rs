use super::SqliteStore;
use super::rows::{count, damaged, parsed};
use crate::artifacts::{ArtifactRecord, ArtifactUsage, ArtifactVersion, Artifacts, MAX_VERSIONS, NewArtifact};
use crate::moment::{from_millis, to_millis};
use crate::{MAX_PAGE, StoreError, bounds};
use async_trait::async_trait;
use coracle_types::{ArtifactId, ExecutionId, SessionId, UserId};
use sqlx::{Connection as _, SqliteConnection};

/// ID, name and number of versions, followed by the version.
type Row = (String, String, i64, i64, String, Option<String>, String, i64, String, i64, Option<String>);

/// The columns of [`Row`].
macro_rules! columns {
    () => {
        "a.artifact_id, a.name,
         (SELECT COUNT(*) FROM artifact_versions c WHERE c.user_id = a.user_id AND c.artifact_id = a.artifact_id),
         v.version, v.execution_id, v.session_id, v.mime, v.bytes, v.sha256, v.created_at, v.preview
         FROM artifacts a JOIN artifact_versions v ON v.user_id = a.user_id AND v.artifact_id = a.artifact_id"
    };
}

#[async_trait]
impl Artifacts for SqliteStore {
    async fn add_artifacts(
        &self,
        user: &UserId,
        new: &[NewArtifact],
        most: u64,
    ) -> Result<Vec<Option<(ArtifactId, u64)>>, StoreError> {
        for new in new {
            bounds::artifact(new)?;
        }
        let failed = self.failed("keep artifacts");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let mut used = self.used(&mut transaction, user).await?.bytes;
        let mut added = Vec::new();
        for new in new {
            if used.saturating_add(new.charge()) > most {
                added.push(None);
                continue;
            }
            used += new.charge();
            added.push(Some(self.add(&mut transaction, user, new).await?));
        }
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        // A version that was reported must survive a crash.
        self.durable.wait().await?;
        Ok(added)
    }

    async fn artifacts(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ArtifactId>,
    ) -> Result<Vec<ArtifactRecord>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(concat!(
            "SELECT ",
            columns!(),
            " WHERE a.user_id = ?1
              AND v.version = (SELECT MAX(n.version) FROM artifact_versions n
                               WHERE n.user_id = a.user_id AND n.artifact_id = a.artifact_id)
              AND (?2 IS NULL OR (a.changed_at, a.artifact_id) < (
                  SELECT b.changed_at, b.artifact_id FROM artifacts b WHERE b.user_id = ?1 AND b.artifact_id = ?2))
              ORDER BY a.changed_at DESC, a.artifact_id DESC LIMIT ?3"
        ))
        .bind(user.as_str())
        .bind(before.map(|id| id.as_str().to_owned()))
        .bind(count(limit.min(MAX_PAGE)))
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("list artifacts"))?;
        rows.into_iter().map(record).collect()
    }

    async fn artifact(&self, user: &UserId, id: &ArtifactId) -> Result<Option<ArtifactRecord>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(concat!(
            "SELECT ",
            columns!(),
            " WHERE a.user_id = ?1 AND a.artifact_id = ?2 ORDER BY v.version DESC LIMIT ?3"
        ))
        .bind(user.as_str())
        .bind(id.as_str())
        .bind(count(MAX_VERSIONS))
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read an artifact"))?;
        joined(rows)
    }

    async fn artifact_version(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: u64,
    ) -> Result<Option<ArtifactRecord>, StoreError> {
        let row: Option<Row> = sqlx::query_as(concat!(
            "SELECT ",
            columns!(),
            " WHERE a.user_id = ?1 AND a.artifact_id = ?2 AND v.version = ?3"
        ))
        .bind(user.as_str())
        .bind(id.as_str())
        .bind(number(version))
        .fetch_optional(&self.pool)
        .await
        .map_err(self.failed("read an artifact"))?;
        row.map(record).transpose()
    }

    async fn artifact_of(
        &self,
        user: &UserId,
        execution: &ExecutionId,
        name: &str,
    ) -> Result<Option<ArtifactRecord>, StoreError> {
        let row: Option<Row> = sqlx::query_as(concat!(
            "SELECT ",
            columns!(),
            " WHERE v.user_id = ?1 AND v.execution_id = ?2 AND a.name = ?3 ORDER BY v.version DESC LIMIT 1"
        ))
        .bind(user.as_str())
        .bind(execution.as_str())
        .bind(name)
        .fetch_optional(&self.pool)
        .await
        .map_err(self.failed("read an artifact"))?;
        row.map(record).transpose()
    }

    async fn delete_artifact(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: Option<u64>,
    ) -> Result<Option<ArtifactRecord>, StoreError> {
        let failed = self.failed("delete an artifact");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let rows: Vec<Row> = sqlx::query_as(concat!(
            "SELECT ",
            columns!(),
            " WHERE a.user_id = ?1 AND a.artifact_id = ?2 AND (?3 IS NULL OR v.version = ?3) ORDER BY v.version DESC"
        ))
        .bind(user.as_str())
        .bind(id.as_str())
        .bind(version.map(number))
        .fetch_all(&mut *transaction)
        .await
        .map_err(&failed)?;
        for statement in [
            "DELETE FROM artifact_versions WHERE user_id = ?1 AND artifact_id = ?2 AND (?3 IS NULL OR version = ?3)",
            "DELETE FROM artifacts WHERE user_id = ?1 AND artifact_id = ?2 AND (?3 IS NULL OR NOT EXISTS (
                 SELECT 1 FROM artifact_versions WHERE user_id = ?1 AND artifact_id = ?2))",
        ] {
            let query = sqlx::query(statement).bind(user.as_str()).bind(id.as_str()).bind(version.map(number));
            query.execute(&mut *transaction).await.map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        joined(rows)
    }

    async fn delete_artifacts(&self, user: &UserId) -> Result<(), StoreError> {
        let deleted = sqlx::query("DELETE FROM artifacts WHERE user_id = ?1")
            .bind(user.as_str())
            .execute(&mut *self.writer().await?)
            .await;
        deleted.map_err(self.failed("delete artifacts"))?;
        Ok(())
    }

    async fn artifact_usage(&self, user: &UserId) -> Result<ArtifactUsage, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(self.failed("add up artifacts"))?;
        self.used(&mut connection, user).await
    }
}

impl SqliteStore {
    async fn used(&self, connection: &mut SqliteConnection, user: &UserId) -> Result<ArtifactUsage, StoreError> {
        let (bytes, versions): (i64, i64) =
            sqlx::query_as("SELECT COALESCE(SUM(charged), 0), COUNT(*) FROM artifact_versions WHERE user_id = ?1")
                .bind(user.as_str())
                .fetch_one(connection)
                .await
                .map_err(self.failed("add up artifacts"))?;
        Ok(ArtifactUsage { bytes: bytes.unsigned_abs(), versions: versions.unsigned_abs() })
    }

    async fn add(
        &self,
        connection: &mut SqliteConnection,
        user: &UserId,
        new: &NewArtifact,
    ) -> Result<(ArtifactId, u64), StoreError> {
        let failed = self.failed("keep an artifact");
        let preview = new.preview.as_ref().map(|preview| serde_json::to_string(preview).unwrap_or_default());
        let (id, version): (String, i64) = sqlx::query_as(
            "INSERT INTO artifacts (user_id, artifact_id, name, latest, changed_at) VALUES (?1, ?2, ?3, 1, ?4)
             ON CONFLICT (user_id, name) DO UPDATE SET latest = latest + 1, changed_at = excluded.changed_at
             RETURNING artifact_id, latest",
        )
        .bind(user.as_str())
        .bind(new.id.as_str())
        .bind(&new.name)
        .bind(to_millis(new.created_at))
        .fetch_one(&mut *connection)
        .await
        .map_err(&failed)?;
        sqlx::query(
            "INSERT INTO artifact_versions (user_id, artifact_id, version, execution_id, session_id, mime, bytes, charged,
                                            sha256, created_at, preview)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .bind(user.as_str())
        .bind(&id)
        .bind(version)
        .bind(new.execution_id.as_str())
        .bind(new.session.as_ref().map(|session| session.as_str().to_owned()))
        .bind(&new.mime)
        .bind(number(new.bytes))
        .bind(number(new.charge()))
        .bind(&new.sha256)
        .bind(to_millis(new.created_at))
        .bind(preview)
        .execute(connection)
        .await
        .map_err(&failed)?;
        let id = ArtifactId::new(&id).map_err(|error| damaged("artifact", error))?;
        Ok((id, version.unsigned_abs()))
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn record(row: Row) -> Result<ArtifactRecord, StoreError> {
    let (id, name, count, version, execution, session, mime, bytes, sha256, created_at, preview) = row;
    let what = format!("artifact {id:?}");
    let version = ArtifactVersion {
        version: version.unsigned_abs(),
        execution_id: ExecutionId::new(&execution).map_err(|error| damaged(&what, error))?,
        session: session.map(SessionId::new).transpose().map_err(|error| damaged(&what, error))?,
        mime,
        bytes: bytes.unsigned_abs(),
        sha256,
        created_at: from_millis(created_at),
        preview: preview.map(|text| parsed(&what, &text)).transpose()?,
    };
    let id = ArtifactId::new(&id).map_err(|error| damaged(&what, error))?;
    Ok(ArtifactRecord { id, name, count: count.unsigned_abs(), versions: vec![version] })
}

/// Combines the rows of one artifact.
fn joined(rows: Vec<Row>) -> Result<Option<ArtifactRecord>, StoreError> {
    let mut whole: Option<ArtifactRecord> = None;
    for row in rows {
        let record = record(row)?;
        match &mut whole {
            None => whole = Some(record),
            Some(whole) => whole.versions.extend(record.versions),
        }
    }
    Ok(whole)
}
