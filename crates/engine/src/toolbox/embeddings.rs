//! Embeddings of tools and queries from a separate model, if one is configured.
//!
//! Searches do not wait for the vectors of tools: they are read from disk, and missing ones are requested in the
//! background. While vectors are missing, and whenever the model fails, searches use the built-in table of the
//! catalogue.

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

/// Maximum time that a search waits for the embedding of its query.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time after a failure during which the model is not used.
const REST: Duration = Duration::from_secs(30);

/// Minimum time between two failure messages.
const TOLD_EVERY: Duration = Duration::from_mins(10);

/// Number of texts after which vectors are written to disk.
const PORTION: usize = 512;

/// Configuration of the embedder and its cache.
#[derive(Clone, Debug)]
pub struct EmbedderConfig {
    /// Embedder to use.
    pub embedder: Arc<dyn Embedder>,
    /// Folder used exclusively for cached vectors.
    pub cache: PathBuf,
}

#[derive(Debug)]
pub(super) struct Embeddings {
    embedder: Arc<dyn Embedder>,
    identity: String,
    file: VectorFile,
    /// Lock held while vectors of tools are requested.
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

    /// Returns whether all tools have vectors. If not, loads cached vectors and requests the others in the background.
    pub(super) async fn are_ready(self: &Arc<Self>, inventory: &Arc<Inventory>) -> bool {
        if inventory.catalog.is_all_read() {
            return true;
        }
        if self.is_resting() {
            return false;
        }
        // Fails if another task is already requesting vectors.
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

    /// Loads cached vectors, requests the others, and waits until that has finished or failed.
    async fn finish(self: &Arc<Self>, inventory: &Arc<Inventory>) {
        let _turn = self.turn.lock().await;
        if !inventory.catalog.is_all_read() && !self.is_resting() {
            let (known, missing) = self.take_in(inventory, Known::new()).await;
            self.make(inventory, known, missing).await;
        }
    }

    /// Returns the vectors of a query; `None` if they are not available now.
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

    /// Requests the missing vectors of tools, writes them to disk, and adds them to the catalogue.
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
            // The name now refers to a different model, so the cached vectors are useless.
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

    /// Adds the vectors on disk and in `fresh` to the catalogue. Returns the vectors that its unread tools use, and the
    /// texts that have none.
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
    /// Starts to index tools that the embedder does not know yet. Waits only for the disk. A search does this as well,
    /// but calling it earlier lets the first search benefit from the embedder.
    pub async fn begin_reading(&self, inventory: &Arc<Inventory>) {
        if let Some(embeddings) = &self.embeddings {
            embeddings.are_ready(inventory).await;
        }
    }

    /// Waits until the embedder has indexed all tools or failed. Searches also work before that, with the built-in
    /// table of the catalogue. Does nothing without an embedder.
    pub async fn finish_reading(&self, inventory: &Arc<Inventory>) {
        if let Some(embeddings) = &self.embeddings {
            embeddings.finish(inventory).await;
        }
    }

    /// Returns the vectors of a query; `None` without an embedder, before it has indexed all tools, or if it fails.
    pub async fn meaning(&self, inventory: &Arc<Inventory>, query: &str) -> Option<Foreign> {
        self.embeddings.as_ref()?.of_query(inventory, query).await
    }
}

fn useless(reason: &str) -> EmbedError {
    EmbedError::Useless(reason.to_owned())
}
