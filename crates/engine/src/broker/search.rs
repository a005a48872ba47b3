//! Tool searches made by sandboxed code.

use super::Broker;
use crate::host_calls::{HostCallError, refused};
use crate::json;
use crate::toolbox::{Inventory, Listing, ToolSearch};
use coracle_catalog::Level;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Maximum length of a query in bytes.
const MAX_QUERY_BYTES: usize = 8 << 10;

/// Maximum length of a server or category name in bytes.
const MAX_NAME_BYTES: usize = 1 << 10;

/// Maximum number of results.
const MAX_LIMIT: usize = 100;

/// Default number of results.
const DEFAULT_LIMIT: usize = 10;

/// Maximum length of a deserialization error in characters, because it repeats text from untrusted code.
const MAX_TOLD_CHARS: usize = 300;

/// Hint for an answer that is too large.
const LESS: &str = "search with a lower limit, or with less detail";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    #[serde(default)]
    query: String,
    server: Option<String>,
    category: Option<String>,
    detail_level: Option<String>,
    limit: Option<usize>,
}

impl Broker {
    /// Returns the matching tools as an array of objects, best match first. A search is not recorded as a tool call.
    pub(super) async fn search(&self, params: Map<String, Value>) -> Result<Value, HostCallError> {
        let search = read(params).map_err(|problem| refused("invalid_request", &problem))?;
        let _permit = self.under_way.acquire().await;
        let inventory = self.searched().await;
        if let Some(server) = &search.server
            && let Some((_, reason)) = inventory.missing.iter().find(|(missing, _)| missing.as_str() == server)
            && !inventory.catalog.knows_server(server)
        {
            let message = format!("the tools of {server} are not known: {reason}");
            return Err(HostCallError { retryable: true, ..refused("unavailable", &message) });
        }
        let found = self.toolbox.search_for_code(&self.caller.user, inventory, search).await;
        let found = found.map_err(|problem| refused("invalid_request", &problem))?;
        let answer = Value::Array(found.into_iter().map(|tool| tool.value).collect());
        self.fits(json::length(&answer), LESS)?;
        Ok(answer)
    }

    async fn searched(&self) -> &Arc<Inventory> {
        self.searched.get_or_init(|| self.toolbox.inventory(&self.caller.user, Listing::Soon)).await
    }
}

fn read(params: Map<String, Value>) -> Result<ToolSearch, String> {
    let params = serde_json::from_value(Value::Object(params));
    let Params { query, server, category, detail_level, limit } =
        params.map_err(|error| error.to_string().chars().take(MAX_TOLD_CHARS).collect::<String>())?;
    let texts = [
        ("query", Some(&query), MAX_QUERY_BYTES),
        ("server", server.as_ref(), MAX_NAME_BYTES),
        ("category", category.as_ref(), MAX_NAME_BYTES),
    ];
    for (name, text, most) in texts {
        let length = text.map_or(0, String::len);
        if length > most {
            return Err(format!("`{name}` is {length} bytes long: at most {most} are taken"));
        }
    }
    let level = detail_level.map_or(Ok(Level::Summary), |level| level.parse()).map_err(|error| error.to_string())?;
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(format!("`limit` is {limit}: it must be from 1 to {MAX_LIMIT}"));
    }
    Ok(ToolSearch { query, server, category, level, limit })
}
