//! Where data came from, as rows.

use super::SqliteStore;
use super::rows::{count, damaged};
use crate::moment::{from_millis, to_millis};
use crate::provenance::{
    KEPT_VALUE_SOURCES, MAX_FLOW_APPROVALS, check_approval, check_count, check_sources, labels_text, read_labels,
};
use crate::{FlowApproval, KEPT_CLIENT_SOURCES, Place, PlacedSource, Provenance, StoreError};
use async_trait::async_trait;
use coracle_types::{ExecutionId, ServerName, UserId};
use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

/// The number of tokens or places in one query.
const AT_ONCE: usize = 500;

/// Rows of `sources`, but for the user.
type Row = (String, String, String, String, i64);

fn read((place, server, execution, labels, seen_at): Row) -> Result<PlacedSource, StoreError> {
    let server = ServerName::new(server).map_err(|error| damaged("source", error))?;
    let execution = Some(execution).filter(|id| !id.is_empty()).map(ExecutionId::new).transpose();
    Ok(PlacedSource {
        place: Place::named(place),
        server,
        labels: read_labels(&labels),
        execution: execution.map_err(|error| damaged("source", error))?,
        seen_at: from_millis(seen_at),
    })
}

impl SqliteStore {
    async fn add_source(
        &self,
        connection: &mut SqliteConnection,
        user: &UserId,
        source: &PlacedSource,
    ) -> Result<(), StoreError> {
        let failed = self.failed("note where data came from");
        let execution = source.execution.as_ref().map_or("", ExecutionId::as_str);
        let known: Option<String> = sqlx::query_scalar(
            "SELECT labels FROM sources WHERE user_id = ?1 AND place = ?2 AND server = ?3 AND execution_id = ?4",
        )
        .bind(user.as_str())
        .bind(source.place.as_str())
        .bind(source.server.as_str())
        .bind(execution)
        .fetch_optional(&mut *connection)
        .await
        .map_err(&failed)?;
        let mut labels = source.labels.clone();
        labels.extend(known.as_deref().map(read_labels).unwrap_or_default());
        let added = sqlx::query(
            "INSERT INTO sources (user_id, place, server, execution_id, labels, seen_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (user_id, place, server, execution_id)
             DO UPDATE SET labels = excluded.labels, seen_at = MAX(seen_at, excluded.seen_at)",
        )
        .bind(user.as_str())
        .bind(source.place.as_str())
        .bind(source.server.as_str())
        .bind(execution)
        .bind(labels_text(&labels))
        .bind(to_millis(source.seen_at));
        added.execute(&mut *connection).await.map_err(&failed)?;
        Ok(())
    }

    /// The rows of one place.
    async fn rows_of(
        &self,
        connection: &mut SqliteConnection,
        user: &UserId,
        place: &Place,
    ) -> Result<Vec<PlacedSource>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT place, server, execution_id, labels, seen_at FROM sources WHERE user_id = ?1 AND place = ?2",
        )
        .bind(user.as_str())
        .bind(place.as_str())
        .fetch_all(connection)
        .await
        .map_err(self.failed("read where data came from"))?;
        rows.into_iter().map(read).collect()
    }
}

#[async_trait]
impl Provenance for SqliteStore {
    async fn add_sources(&self, user: &UserId, sources: &[PlacedSource]) -> Result<(), StoreError> {
        check_sources(sources)?;
        let failed = self.failed("note where data came from");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        let outdated = SystemTime::now().checked_sub(KEPT_CLIENT_SOURCES).unwrap_or(SystemTime::UNIX_EPOCH);
        sqlx::query("DELETE FROM sources WHERE user_id = ?1 AND place LIKE 'client:%' AND seen_at < ?2")
            .bind(user.as_str())
            .bind(to_millis(outdated))
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        for source in sources {
            self.add_source(&mut transaction, user, source).await?;
        }
        for place in sources.iter().map(|source| &source.place).collect::<BTreeSet<_>>() {
            let servers: i64 =
                sqlx::query_scalar("SELECT COUNT(DISTINCT server) FROM sources WHERE user_id = ?1 AND place = ?2")
                    .bind(user.as_str())
                    .bind(place.as_str())
                    .fetch_one(&mut *transaction)
                    .await
                    .map_err(&failed)?;
            check_count(usize::try_from(servers).unwrap_or(usize::MAX))?;
        }
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn sources_in(&self, user: &UserId, places: &[Place]) -> Result<Vec<PlacedSource>, StoreError> {
        let failed = self.failed("read where data came from");
        let mut found = Vec::new();
        for places in places.chunks(AT_ONCE) {
            let mut query = sqlx::QueryBuilder::new(
                "SELECT place, server, execution_id, labels, seen_at FROM sources WHERE user_id = ",
            );
            query.push_bind(user.as_str().to_owned()).push(" AND place IN (");
            let mut listed = query.separated(", ");
            for place in places {
                listed.push_bind(place.as_str().to_owned());
            }
            query.push(") ORDER BY place, server, execution_id");
            let rows: Vec<Row> = query.build_query_as().fetch_all(&self.pool).await.map_err(&failed)?;
            for row in rows {
                found.push(read(row)?);
            }
        }
        Ok(found)
    }

    async fn sources(&self, user: &UserId) -> Result<Vec<PlacedSource>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT place, server, execution_id, labels, seen_at FROM sources WHERE user_id = ?1
             ORDER BY place, server, execution_id",
        )
        .bind(user.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read where data came from"))?;
        rows.into_iter().map(read).collect()
    }

    async fn settle_sources(
        &self,
        user: &UserId,
        place: &Place,
        execution: &ExecutionId,
        kept: bool,
    ) -> Result<(), StoreError> {
        let failed = self.failed("note where data came from");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        if kept {
            let rows = self.rows_of(&mut transaction, user, place).await?;
            for source in rows.into_iter().filter(|source| source.execution.as_ref() == Some(execution)) {
                self.add_source(&mut transaction, user, &PlacedSource { execution: None, ..source }).await?;
            }
        }
        sqlx::query("DELETE FROM sources WHERE user_id = ?1 AND place = ?2 AND execution_id = ?3")
            .bind(user.as_str())
            .bind(place.as_str())
            .bind(execution.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn copy_sources(&self, user: &UserId, from: &Place, to: &Place) -> Result<(), StoreError> {
        let failed = self.failed("note where data came from");
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        for source in self.rows_of(&mut transaction, user, from).await? {
            let copy = PlacedSource { place: to.clone(), execution: None, ..source };
            self.add_source(&mut transaction, user, &copy).await?;
        }
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn forget_sources(&self, user: &UserId, place: Option<&Place>) -> Result<u64, StoreError> {
        let deleted = sqlx::query("DELETE FROM sources WHERE user_id = ?1 AND (?2 IS NULL OR place = ?2)")
            .bind(user.as_str())
            .bind(place.map(Place::as_str))
            .execute(&mut *self.writer().await?)
            .await
            .map_err(self.failed("forget where data came from"))?;
        self.durable.wait().await?;
        Ok(deleted.rows_affected())
    }

    async fn add_value_sources(
        &self,
        user: &UserId,
        tokens: &BTreeSet<String>,
        server: &ServerName,
    ) -> Result<(), StoreError> {
        let failed = self.failed("note where values came from");
        let now = to_millis(SystemTime::now());
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        for token in tokens {
            crate::bounds::name("token", token)?;
            sqlx::query(
                "INSERT INTO value_sources (user_id, token, server, seen_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (user_id, token, server) DO UPDATE SET seen_at = excluded.seen_at",
            )
            .bind(user.as_str())
            .bind(token)
            .bind(server.as_str())
            .bind(now)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        }
        sqlx::query(
            "DELETE FROM value_sources WHERE user_id = ?1 AND seen_at < (
                 SELECT seen_at FROM value_sources WHERE user_id = ?1 ORDER BY seen_at DESC LIMIT 1 OFFSET ?2)",
        )
        .bind(user.as_str())
        .bind(count(KEPT_VALUE_SOURCES - 1))
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn value_sources(
        &self,
        user: &UserId,
        tokens: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, BTreeSet<ServerName>>, StoreError> {
        let failed = self.failed("read where values came from");
        let all: Vec<&String> = tokens.iter().collect();
        let mut found: BTreeMap<String, BTreeSet<ServerName>> = BTreeMap::new();
        for tokens in all.chunks(AT_ONCE) {
            let mut query = sqlx::QueryBuilder::new("SELECT token, server FROM value_sources WHERE user_id = ");
            query.push_bind(user.as_str().to_owned()).push(" AND token IN (");
            let mut listed = query.separated(", ");
            for token in tokens {
                listed.push_bind(token.as_str());
            }
            query.push(")");
            let rows: Vec<(String, String)> = query.build_query_as().fetch_all(&self.pool).await.map_err(&failed)?;
            for (token, server) in rows {
                let server = ServerName::new(server).map_err(|error| damaged("source of a value", error))?;
                found.entry(token).or_default().insert(server);
            }
        }
        Ok(found)
    }

    async fn approve_flow(&self, user: &UserId, approval: &FlowApproval) -> Result<(), StoreError> {
        check_approval(approval)?;
        let failed = self.failed("keep an approval");
        let sources: Vec<&str> = approval.sources.iter().map(ServerName::as_str).collect();
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.map_err(&failed)?;
        sqlx::query(
            "INSERT INTO flow_approvals (user_id, digest, server, tool, rule, sources, approved_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (user_id, digest) DO UPDATE SET approved_at = excluded.approved_at",
        )
        .bind(user.as_str())
        .bind(&approval.digest)
        .bind(approval.server.as_str())
        .bind(&approval.tool)
        .bind(&approval.rule)
        .bind(sources.join(","))
        .bind(to_millis(approval.approved_at))
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
        sqlx::query(
            "DELETE FROM flow_approvals WHERE user_id = ?1 AND rowid NOT IN (
                 SELECT rowid FROM flow_approvals WHERE user_id = ?1 ORDER BY approved_at DESC, rowid DESC LIMIT ?2)",
        )
        .bind(user.as_str())
        .bind(count(MAX_FLOW_APPROVALS))
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        drop(writer);
        self.durable.wait().await
    }

    async fn flow_approvals(&self, user: &UserId) -> Result<Vec<FlowApproval>, StoreError> {
        let rows: Vec<(String, String, String, String, String, i64)> = sqlx::query_as(
            "SELECT digest, server, tool, rule, sources, approved_at FROM flow_approvals WHERE user_id = ?1
             ORDER BY approved_at DESC, rowid DESC",
        )
        .bind(user.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(self.failed("read approvals"))?;
        let server = |name: &str| ServerName::new(name).map_err(|error| damaged("approval of a flow", error));
        let approval = |(digest, of, tool, rule, sources, approved_at): (_, String, _, _, String, _)| {
            let sources = sources.split(',').filter(|name| !name.is_empty()).map(server);
            Ok(FlowApproval {
                digest,
                server: server(&of)?,
                tool,
                rule,
                sources: sources.collect::<Result<_, StoreError>>()?,
                approved_at: from_millis(approved_at),
            })
        };
        rows.into_iter().map(approval).collect()
    }

    async fn forget_flow_approvals(&self, user: &UserId, server: &ServerName, tool: &str) -> Result<bool, StoreError> {
        let deleted = sqlx::query("DELETE FROM flow_approvals WHERE user_id = ?1 AND server = ?2 AND tool = ?3")
            .bind(user.as_str())
            .bind(server.as_str())
            .bind(tool)
            .execute(&mut *self.writer().await?)
            .await
            .map_err(self.failed("forget approvals"))?;
        self.durable.wait().await?;
        Ok(deleted.rows_affected() > 0)
    }
}
