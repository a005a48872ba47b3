//! The tools that a task begins with.

use super::Frontend;
use coracle_catalog::{Entry, Query, StarterLanguage};
use std::fmt::Write as _;

/// Maximum number of tools that are named as found.
const MAX_FOUND: usize = 20;

/// The tools that the catalogue selects for a task.
#[derive(Clone, Debug, Default)]
pub struct SelectedTools {
    /// Names of the tools that match best, whether they are selected or not.
    pub found: Vec<String>,
    /// Names of the selected tools.
    pub names: Vec<String>,
    /// The tools for a model.
    pub instructions: String,
    /// A Python program that calls them.
    pub starter: Option<String>,
}

impl SelectedTools {
    /// Selects tools by the words of a task.
    pub async fn of(frontend: &Frontend, task: &str) -> Self {
        let (Some(toolbox), Some(inventory)) = (frontend.toolbox(), frontend.inventory(None).await) else {
            return Self::default();
        };
        let search = &frontend.options.settings.search;
        let foreign = toolbox.meaning(&inventory, task).await;
        let query = Query { foreign: foreign.as_ref(), ..Query::new(task) };
        #[expect(clippy::cast_precision_loss, reason = "at most 100")]
        let share = search.select_threshold as f32 / 100.0;
        let top = usize::try_from(search.select_top).unwrap_or(usize::MAX);
        let named = |entry: &Entry| format!("{}.{}", entry.package, entry.function);
        let found = inventory.catalog.search(&query, MAX_FOUND);
        let found: Vec<String> = found.iter().map(|hit| named(hit.entry)).collect();
        let hits = inventory.catalog.select(&query, top, share);
        let chosen: Vec<&Entry> = hits.iter().map(|hit| hit.entry).collect();
        if chosen.is_empty() {
            return Self { found, ..Self::default() };
        }
        let mut instructions = String::from("These tools were selected for the task:\n");
        for entry in &chosen {
            // Writing to a string cannot fail.
            let _ = writeln!(instructions, "- servers.{}.{}: {}", entry.package, entry.function, entry.summary);
        }
        Self {
            found,
            names: chosen.iter().map(|entry| named(entry)).collect(),
            starter: Some(inventory.catalog.starter(task, &chosen, StarterLanguage::Python)),
            instructions,
        }
    }
}
