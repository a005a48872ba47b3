use super::MemoryStore;
use crate::artifacts::{
    ArtifactRecord, ArtifactUsage, ArtifactVersion, Artifacts, LEAST_CHARGE, MAX_VERSIONS, NewArtifact,
};
use crate::moment::{kept, to_millis};
use crate::{MAX_PAGE, StoreError, bounds};
use async_trait::async_trait;
use coracle_types::{ArtifactId, ExecutionId, UserId};
use std::collections::BTreeMap;

/// The artifacts of all users.
pub(super) type Shelves = BTreeMap<UserId, BTreeMap<ArtifactId, Shelf>>;

/// One artifact.
#[derive(Debug)]
pub(super) struct Shelf {
    name: String,
    latest: u64,
    changed_at: i64,
    versions: BTreeMap<u64, ArtifactVersion>,
}

impl Shelf {
    fn record(&self, id: &ArtifactId, pick: impl Fn(&ArtifactVersion) -> bool, most: usize) -> Option<ArtifactRecord> {
        let versions: Vec<_> =
            self.versions.values().rev().filter(|version| pick(version)).take(most).cloned().collect();
        let (id, name) = (id.clone(), self.name.clone());
        (!versions.is_empty()).then_some(ArtifactRecord { id, name, count: self.versions.len() as u64, versions })
    }
}

#[async_trait]
impl Artifacts for MemoryStore {
    async fn add_artifacts(
        &self,
        user: &UserId,
        new: &[NewArtifact],
        most: u64,
    ) -> Result<Vec<Option<(ArtifactId, u64)>>, StoreError> {
        for new in new {
            bounds::artifact(new)?;
        }
        let mut state = self.state();
        let shelves = state.artifacts.entry(user.clone()).or_default();
        let mut used = used(shelves).bytes;
        let mut added = Vec::new();
        for new in new {
            if used.saturating_add(new.charge()) > most {
                added.push(None);
                continue;
            }
            used += new.charge();
            let known = shelves.iter().find(|(_, shelf)| shelf.name == new.name).map(|(id, _)| id.clone());
            let id = known.unwrap_or_else(|| new.id.clone());
            let shelf = shelves.entry(id.clone()).or_insert_with(|| Shelf {
                name: new.name.clone(),
                latest: 0,
                changed_at: 0,
                versions: BTreeMap::new(),
            });
            shelf.latest += 1;
            shelf.changed_at = to_millis(new.created_at);
            let version = ArtifactVersion {
                version: shelf.latest,
                execution_id: new.execution_id.clone(),
                session: new.session.clone(),
                mime: new.mime.clone(),
                bytes: new.bytes,
                sha256: new.sha256.clone(),
                created_at: kept(new.created_at),
                preview: new.preview.clone(),
            };
            shelf.versions.insert(shelf.latest, version);
            added.push(Some((id, shelf.latest)));
        }
        Ok(added)
    }

    async fn artifacts(
        &self,
        user: &UserId,
        limit: usize,
        before: Option<&ArtifactId>,
    ) -> Result<Vec<ArtifactRecord>, StoreError> {
        let state = self.state();
        let Some(shelves) = state.artifacts.get(user) else { return Ok(Vec::new()) };
        let mut all: Vec<_> = shelves.iter().map(|(id, shelf)| ((shelf.changed_at, id), shelf)).collect();
        all.sort_by(|(one, _), (other, _)| other.cmp(one));
        let start = match before {
            None => 0,
            Some(id) => match all.iter().position(|((_, known), _)| *known == id) {
                Some(at) => at + 1,
                None => return Ok(Vec::new()),
            },
        };
        let page = all.into_iter().skip(start).take(limit.min(MAX_PAGE));
        Ok(page.filter_map(|((_, id), shelf)| shelf.record(id, |_| true, 1)).collect())
    }

    async fn artifact(&self, user: &UserId, id: &ArtifactId) -> Result<Option<ArtifactRecord>, StoreError> {
        let state = self.state();
        let shelf = state.artifacts.get(user).and_then(|shelves| shelves.get(id));
        Ok(shelf.and_then(|shelf| shelf.record(id, |_| true, MAX_VERSIONS)))
    }

    async fn artifact_version(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: u64,
    ) -> Result<Option<ArtifactRecord>, StoreError> {
        let state = self.state();
        let shelf = state.artifacts.get(user).and_then(|shelves| shelves.get(id));
        Ok(shelf.and_then(|shelf| shelf.record(id, |found| found.version == version, 1)))
    }

    async fn artifact_of(
        &self,
        user: &UserId,
        execution: &ExecutionId,
        name: &str,
    ) -> Result<Option<ArtifactRecord>, StoreError> {
        let state = self.state();
        let shelf = state.artifacts.get(user).and_then(|shelves| shelves.iter().find(|(_, shelf)| shelf.name == name));
        Ok(shelf.and_then(|(id, shelf)| shelf.record(id, |found| found.execution_id == *execution, 1)))
    }

    async fn delete_artifact(
        &self,
        user: &UserId,
        id: &ArtifactId,
        version: Option<u64>,
    ) -> Result<Option<ArtifactRecord>, StoreError> {
        let mut state = self.state();
        let Some(shelves) = state.artifacts.get_mut(user) else { return Ok(None) };
        let Some(shelf) = shelves.get_mut(id) else { return Ok(None) };
        let wanted = |found: &ArtifactVersion| version.is_none_or(|version| found.version == version);
        let deleted = shelf.record(id, wanted, usize::MAX);
        shelf.versions.retain(|_, found| !wanted(found));
        if shelf.versions.is_empty() {
            shelves.remove(id);
        }
        Ok(deleted)
    }

    async fn delete_artifacts(&self, user: &UserId) -> Result<(), StoreError> {
        self.state().artifacts.remove(user);
        Ok(())
    }

    async fn artifact_usage(&self, user: &UserId) -> Result<ArtifactUsage, StoreError> {
        Ok(self.state().artifacts.get(user).map(used).unwrap_or_default())
    }
}

fn used(shelves: &BTreeMap<ArtifactId, Shelf>) -> ArtifactUsage {
    let versions = shelves.values().flat_map(|shelf| shelf.versions.values());
    versions.fold(ArtifactUsage::default(), |usage, version| ArtifactUsage {
        bytes: usage.bytes + version.bytes.max(LEAST_CHARGE),
        versions: usage.versions + 1,
    })
}
