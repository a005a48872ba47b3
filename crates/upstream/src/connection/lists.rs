//! Lists that come page by page.

use super::Connection;
use crate::call::CallContext;
use crate::error::UpstreamError;
use crate::scrub::shortened;
use rmcp::model::ErrorCode;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Most pages of one list.
const MAX_PAGES: usize = 100;
/// Most entries of a list of resources or prompts; the rest is left out.
const MAX_ENTRIES: usize = 10_000;
/// Largest entry of such a list, as JSON text; larger ones are left out.
const MAX_ENTRY: usize = 64 * 1024;
/// Largest such list, as JSON text; the rest is left out.
const MAX_LIST: usize = 16 * 1024 * 1024;
/// Longest address or name of an entry.
const MAX_KEY: usize = 8 * 1024;
const SHOWN_KEY: usize = 100;

/// A list that servers have.
#[derive(Clone, Copy)]
pub(crate) struct List {
    method: &'static str,
    /// The member of the answer that holds the entries.
    member: &'static str,
    /// The member of an entry by which it is known.
    key: &'static str,
}

pub(crate) const TOOLS: List = List { method: "tools/list", member: "tools", key: "name" };
pub(crate) const RESOURCES: List = List { method: "resources/list", member: "resources", key: "uri" };
pub(crate) const TEMPLATES: List =
    List { method: "resources/templates/list", member: "resourceTemplates", key: "uriTemplate" };
pub(crate) const PROMPTS: List = List { method: "prompts/list", member: "prompts", key: "name" };

/// Whether the next entry is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    More,
    NoMore,
}

impl Connection {
    /// All entries that can be kept, as they came.
    pub(crate) async fn list(&self, list: List) -> Result<Vec<Value>, UpstreamError> {
        let mut entries = Vec::new();
        let mut keys = HashSet::new();
        let (mut bytes, mut left_out) = (0, 0);
        self.pages(list, |entry| {
            let size = entry.to_string().len();
            let key = entry.get(list.key).and_then(Value::as_str);
            let key = key.filter(|key| !key.is_empty() && key.len() <= MAX_KEY && size <= MAX_ENTRY);
            match key {
                Some(key) if keys.insert(key.to_owned()) => {
                    bytes += size;
                    entries.push(entry);
                }
                _ => left_out += 1,
            }
            if entries.len() < MAX_ENTRIES && bytes < MAX_LIST { Wanted::More } else { Wanted::NoMore }
        })
        .await?;
        if left_out > 0 {
            tracing::warn!(server = %self.server(), list = list.method, left_out, "entries are not as they should be");
        }
        Ok(entries)
    }

    /// Hands on the entries one by one, page by page. A server without such a list has an empty one.
    pub(super) async fn pages(&self, list: List, mut take: impl FnMut(Value) -> Wanted) -> Result<(), UpstreamError> {
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params: Map<_, _> =
                cursor.iter().map(|cursor| ("cursor".to_owned(), Value::from(cursor.as_str()))).collect();
            let page = match self.ask(list.method, params, &CallContext::default(), list.method).await {
                Ok(page) => page,
                Err(UpstreamError::Refused { number, .. })
                    if number == i64::from(ErrorCode::METHOD_NOT_FOUND.0) && cursor.is_none() =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let (Value::Object(mut page), missing) = (page, || {
                let member = shortened(list.member, SHOWN_KEY);
                self.protocol(&format!("its {member} are not a list"))
            }) else {
                return Err(self.protocol("what it sent in place of a list is none"));
            };
            let Some(Value::Array(entries)) = page.remove(list.member) else {
                return Err(missing());
            };
            let mut wanted = Wanted::More;
            for entry in entries {
                wanted = take(entry);
                if wanted == Wanted::NoMore {
                    break;
                }
            }
            let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if next.is_none() || next == cursor || wanted == Wanted::NoMore {
                break;
            }
            cursor = next;
        }
        Ok(())
    }
}
