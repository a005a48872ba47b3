//! What tools and queries mean to another model, if one is configured.
//!
//! Nobody waits for the vectors of tools: they are read from disk, and what is not there is made in the background. As
//! long as some are missing, and whenever the model fails, searches go by the table of the catalogue.

mod file;

use super::{Inventory, Toolbox};
use crate::embedder::{EmbedError, Embedder};
use coracle_catalog::{Direction, Foreign};
use file::{Known, VectorFile, key};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex as Turn;

/// A search waits no longer for what its query means.
const PATIENCE: Duration = Duration::from_secs(3);

/// After a failure the model is left alone for so long, and searches do not wait for it.
const REST: Duration = Duration::from_secs(30);

/// Failures are told no more often.
const TOLD_EVERY: Duration = Duration::from_mins(10);

/// After so many texts the vectors are written down.
const PORTION: usize = 512;

/// Another model, and where its vectors are kept.
#[derive(Clone, Debug)]
pub struct EmbedderConfig {
    /// The embedder.
    pub embedder: Arc<dyn Embedder>,
    /// Folder for vectors, and nothing else.
    pub cache: PathBuf,
}

#[derive(Debug)]
pub(super) struct Embeddings {
    embedder: Arc<dyn Embedder>,
    identity: String,
    file: VectorFile,
    /// Held while vectors of tools are requested.
    turn: Arc<Turn<()>>,
    trouble: Mutex<Trouble>,
}

#[derive(Debug, Default)]
struct Trouble {
    failed: Option<Instant>,
    told: Option<Instant>,
}

impl Embeddings {
    pub(super) fn new(config: EmbedderConfig) -> Arc<Self> {
        let identity = config.embedder.identity();
        let file = VectorFile::new(config.cache, &identity);
        Arc::new(Self { embedder: config.embedder, identity, file, turn: Arc::default(), trouble: Mutex::default() })
    }

    /// Whether all tools have vectors. If not, loads those that are cached, and requests the others in the background.
    pub(super) async fn are_ready(self: &Arc<Self>, inventory: &Arc<Inventory>) -> bool {
        if inventory.catalog.is_all_read() {
            return true;
        }
        if self.is_resting() {
            return false;
        }
        // Another task is doing it.
        let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() else { return false };
        let (known, missing) = self.take_in(inventory, Known::new()).await;
        if missing.is_empty() {
            return inventory.catalog.is_all_read();
        }
        let (this, inventory) = (Arc::clone(self), Arc::clone(inventory));
        tokio::spawn(async move {
            let _turn = turn;
            this.make(&inventory, known, missing).await;
        });
        false
    }

    /// The same, and waits until it is done.
    async fn finish(self: &Arc<Self>, inventory: &Arc<Inventory>) {
        let _turn = self.turn.lock().await;
        if !inventory.catalog.is_all_read() && !self.is_resting() {
            let (known, missing) = self.take_in(inventory, Known::new()).await;
            self.make(inventory, known, missing).await;
        }
    }

    /// The vectors of a query; none if they are not available now.
    async fn of_query(self: &Arc<Self>, inventory: &Arc<Inventory>, query: &str) -> Option<Foreign> {
        if !query.chars().any(char::is_alphanumeric) || !self.are_ready(inventory).await || self.is_resting() {
            return None;
        }
        let texts = Foreign::texts(query);
        let asked = tokio::time::timeout(PATIENCE, self.ask(&texts)).await;
        let outcome = asked.unwrap_or_else(|_| Err(EmbedError::Silent(format!("within {} s", PATIENCE.as_secs()))));
        let vectors = outcome.map_err(|error| self.failed(&error)).ok()?;
        Foreign::new(&vectors)
    }

    /// Requests the vectors of tools.
    async fn make(self: &Arc<Self>, inventory: &Arc<Inventory>, mut known: Known, missing: Vec<String>) {
        for portion in missing.chunks(PORTION) {
            match self.portion(portion, &known).await {
                Ok(made) => known.extend(made),
                Err(error) => return self.failed(&error),
            }
            let (this, all) = (Arc::clone(self), known.clone());
            let written = tokio::task::spawn_blocking(move || this.file.add(&all)).await;
            if let Ok(Err(error)) = written {
                tracing::warn!(%error, "the vectors of tools are not kept");
            }
        }
        self.take_in(inventory, known).await;
    }

    async fn portion(&self, texts: &[String], known: &Known) -> Result<Known, EmbedError> {
        let vectors = self.ask(texts).await?;
        let mut made = Known::new();
        for (text, vector) in texts.iter().zip(&vectors) {
            let direction = Direction::new(vector).ok_or_else(|| useless("a vector without a direction"))?;
            made.insert(key(&self.identity, text), direction);
        }
        let length = |known: &Known| known.values().next().map(|direction| direction.numbers().len());
        if length(known).is_some_and(|before| length(&made) != Some(before)) {
            // The name refers to another model now, so the cached vectors are useless.
            if let Err(error) = self.file.forget() {
                tracing::warn!(%error, "the old vectors of tools are not removed");
            }
            return Err(useless("vectors of another length than before"));
        }
        Ok(made)
    }

    async fn ask(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vectors = self.embedder.embed(texts).await?;
        let length = vectors.first().map_or(0, Vec::len);
        if vectors.len() != texts.len() || vectors.iter().any(|vector| vector.len() != length) {
            return Err(useless("not one vector of the same length for each text"));
        }
        Ok(vectors)
    }

    /// Gives the catalogue what is on disk and in `fresh`: what of that its unread tools use, and which texts are missing.
    async fn take_in(self: &Arc<Self>, inventory: &Arc<Inventory>, fresh: Known) -> (Known, Vec<String>) {
        let (this, inventory) = (Arc::clone(self), Arc::clone(inventory));
        let task = tokio::task::spawn_blocking(move || {
            let mut known = this.file.read();
            known.extend(fresh);
            let (mut used, mut missing) = (Known::new(), BTreeSet::new());
            for unread in inventory.catalog.unread() {
                let keys: Vec<_> = unread.texts.iter().map(|text| key(&this.identity, text)).collect();
                let directions: Vec<&Direction> = keys.iter().filter_map(|key| known.get(key)).collect();
                if directions.len() == keys.len() {
                    inventory.catalog.take_in(&unread, &directions);
                }
                for (text, key) in unread.texts.into_iter().zip(keys) {
                    match known.get(&key) {
                        Some(direction) => drop(used.insert(key, direction.clone())),
                        None => drop(missing.insert(text)),
                    }
                }
            }
            (used, missing.into_iter().collect())
        });
        task.await.unwrap_or_default()
    }

    fn is_resting(&self) -> bool {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.failed.is_some_and(|failed| failed.elapsed() < REST)
    }

    fn failed(&self, error: &EmbedError) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.failed = Some(Instant::now());
        if trouble.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            trouble.told = Some(Instant::now());
            tracing::warn!(%error, code = error.code(), "tools are searched by the table inside the program");
        }
    }
}

impl Toolbox {
    /// Lets the embedder, if there is one, index tools that it does not know yet. Waits for the disk only. A search does
    /// this as well; calling it earlier makes the first search as good as the next.
    pub async fn begin_reading(&self, inventory: &Arc<Inventory>) {
        if let Some(embeddings) = &self.embeddings {
            embeddings.are_ready(inventory).await;
        }
    }

    /// Waits until the embedder, if there is one, has indexed all tools or failed. Searches work without it, but are better
    /// afterwards.
    pub async fn finish_reading(&self, inventory: &Arc<Inventory>) {
        if let Some(embeddings) = &self.embeddings {
            embeddings.finish(inventory).await;
        }
    }

    /// The vectors of a query, if there is an embedder that has indexed all tools.
    pub async fn meaning(&self, inventory: &Arc<Inventory>, query: &str) -> Option<Foreign> {
        self.embeddings.as_ref()?.of_query(inventory, query).await
    }
}

fn useless(reason: &str) -> EmbedError {
    EmbedError::Useless(reason.to_owned())
}
