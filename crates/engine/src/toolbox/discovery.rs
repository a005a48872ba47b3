//! Search for tools, for clients and for sandboxed code.

use super::{Inventory, Toolbox};
use crate::host_calls::quoted;
use coracle_catalog::{Catalog, Entry, Foreign, Group, Hit, Level, Query, Uses};
use coracle_store::{ExecutionRecord, MAX_PAGE};
use coracle_types::UserId;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};

/// Maximum number of pages of a user's most recent executions that are read to count tool uses.
const PAGES: usize = 2;

/// Maximum number of tools that are searched on the async runtime; a larger catalogue is searched on a blocking thread.
const LARGE: usize = 1_000;

/// Factor by which more hits than the limit are requested, because grouping merges equivalent ones.
const SPARE: usize = 2;

/// Maximum number of servers or categories listed in an error message.
const NAMED: usize = 30;

/// Parameters of a search for tools.
#[derive(Clone, Debug)]
pub struct ToolSearch {
    /// Query in natural language; an empty query matches everything.
    pub query: String,
    /// Restricts the search to this server.
    pub server: Option<String>,
    /// Restricts the search to this category, or to the server of this name.
    pub category: Option<String>,
    /// Level of detail.
    pub level: Level,
    /// Maximum number of results.
    pub limit: usize,
}

/// Search result for one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundTool {
    /// Description as text for people and models.
    pub text: String,
    /// Description as JSON for programs.
    pub value: Value,
    /// Relevance score; comparable only within the same search.
    pub score: f32,
}

impl Toolbox {
    /// Returns the matching tools, best match first. Equivalent tools of several servers are grouped.
    ///
    /// # Errors
    /// Returns a message if the server or category does not exist.
    pub async fn search(
        &self,
        user: &UserId,
        inventory: &Arc<Inventory>,
        search: ToolSearch,
    ) -> Result<Vec<FoundTool>, String> {
        let foreign = self.meaning(inventory, &search.query).await;
        self.search_by(user, inventory, search, foreign).await
    }

    /// Searches like [`Self::search`], but without the embedder: queries from sandboxed code must not leave this
    /// machine.
    pub(crate) async fn search_for_code(
        &self,
        user: &UserId,
        inventory: &Arc<Inventory>,
        search: ToolSearch,
    ) -> Result<Vec<FoundTool>, String> {
        self.search_by(user, inventory, search, None).await
    }

    async fn search_by(
        &self,
        user: &UserId,
        inventory: &Arc<Inventory>,
        search: ToolSearch,
        foreign: Option<Foreign>,
    ) -> Result<Vec<FoundTool>, String> {
        let uses = self.uses(user).await;
        let inventory = Arc::clone(inventory);
        if inventory.catalog.len() <= LARGE && inventory.catalog.knows_meanings() {
            return found(&inventory.catalog, &search, &uses, foreign.as_ref());
        }
        let task = tokio::task::spawn_blocking(move || found(&inventory.catalog, &search, &uses, foreign.as_ref()));
        task.await.unwrap_or_else(|error| Err(format!("the search failed: {error}")))
    }

    /// Returns how often the user's recent executions have successfully called each tool.
    async fn uses(&self, user: &UserId) -> Arc<Uses> {
        if let Some(uses) = self.uses.lock().unwrap_or_else(PoisonError::into_inner).get(user) {
            return Arc::clone(uses);
        }
        let mut uses = Uses::new();
        let mut before = None;
        for _ in 0..PAGES {
            let page = match self.store.executions(user, MAX_PAGE, before.as_ref()).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "what was used before cannot be read");
                    break;
                }
            };
            for record in &page {
                count(&mut uses, record);
            }
            match page.last() {
                Some(last) if page.len() == MAX_PAGE => before = Some(last.execution_id.clone()),
                _ => break,
            }
        }
        let uses = Arc::new(uses);
        self.uses.lock().unwrap_or_else(PoisonError::into_inner).insert(user.clone(), Arc::clone(&uses));
        uses
    }

    /// Counts the calls of an execution if the uses of its user are loaded. Otherwise they are read from the store
    /// later.
    pub(crate) fn used(&self, record: &ExecutionRecord) {
        if let Some(uses) = self.uses.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&record.user) {
            count(Arc::make_mut(uses), record);
        }
    }
}

fn count(uses: &mut Uses, record: &ExecutionRecord) {
    for call in record.outcome.get("calls").and_then(Value::as_array).into_iter().flatten() {
        if call["ok"] == true
            && let (Some(server), Some(tool)) = (call["server"].as_str(), call["tool"].as_str())
        {
            *uses.entry((server.to_owned(), tool.to_owned())).or_default() += 1;
        }
    }
}

fn found(
    catalog: &Catalog,
    search: &ToolSearch,
    uses: &Uses,
    foreign: Option<&Foreign>,
) -> Result<Vec<FoundTool>, String> {
    let (server, category) = (search.server.as_deref(), search.category.as_deref());
    if let Some(server) = server
        && !catalog.knows_server(server)
    {
        let there: Vec<&str> = catalog.servers().iter().map(|server| server.name.as_str()).take(NAMED).collect();
        return Err(format!("there is no server {}; there are: {}", quoted(server), there.join(", ")));
    }
    if let Some(category) = category
        && !catalog.knows_category(category)
    {
        let there: Vec<String> = catalog.categories().into_iter().map(|category| category.name).take(NAMED).collect();
        return Err(format!("there is no category {}; there are: {}", quoted(category), there.join(", ")));
    }
    let query = Query { text: &search.query, server, category, uses: Some(uses), foreign };
    let hits: Vec<Hit<'_>> = catalog.search(&query, search.limit.saturating_mul(SPARE));
    let groups = if search.query.trim().is_empty() {
        hits.into_iter().map(|hit| Group { hit, also: Vec::new() }).collect()
    } else {
        Catalog::grouped(hits)
    };
    Ok(groups.into_iter().take(search.limit).map(|group| told(catalog, &group, search.level)).collect())
}

fn told(catalog: &Catalog, group: &Group<'_>, level: Level) -> FoundTool {
    let entry = group.hit.entry;
    let also: Vec<String> = group.also.iter().map(|entry| entry.path()).collect();
    let mut text = catalog.show(&entry.server, &entry.name, level).unwrap_or_default().trim_end().to_owned();
    let mut value = described(catalog, entry, level);
    if !also.is_empty() {
        if matches!(level, Level::Name | Level::Summary) {
            let _ = write!(text, " (also {})", also.join(", "));
        }
        value["also"] = json!(also);
    }
    FoundTool { text, value, score: group.hit.score }
}

/// Returns a tool at a level of detail as a JSON object.
pub fn described(catalog: &Catalog, entry: &Entry, level: Level) -> Value {
    let shown = || catalog.show(&entry.server, &entry.name, level).unwrap_or_default();
    let mut value = match level {
        Level::Full => serde_json::from_str(&shown()).unwrap_or_else(|_| json!({})),
        Level::Python | Level::Typescript => json!({ level.as_str(): shown() }),
        Level::Summary => json!({ "summary": entry.summary }),
        Level::Name => json!({}),
    };
    if level != Level::Full {
        value["name"] = Value::from(entry.path());
    }
    if let Some(connect) = &entry.connect {
        value["connect"] = Value::from(connect.as_str());
    }
    value
}
