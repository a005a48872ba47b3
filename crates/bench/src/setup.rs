use coracle_engine::Inventory;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

/// What the benchmarks need to know about the program that they are part of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Data folder of the user, for its Python environment and the files of the guest.
    pub home: PathBuf,
    /// Configured interpreter of sandboxes, if any.
    pub python: Option<PathBuf>,
    /// Number of sandboxes that a server prepares.
    pub pool: usize,
    /// Socket of the container engine, if it is named.
    pub engine: Option<String>,
}

/// Lists the tools of the user's own servers; `None` if no servers are configured. Awaited only if they are counted.
pub type OwnTools = Pin<Box<dyn Future<Output = anyhow::Result<Option<Arc<Inventory>>>> + Send>>;
