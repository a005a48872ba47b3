//! Paginated lists.

use super::Connection;
use crate::call::CallContext;
use crate::error::UpstreamError;
use crate::scrub::shortened;
use rmcp::model::ErrorCode;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The maximum number of pages of a list.
const MAX_PAGES: usize = 100;
/// The maximum number of entries of a list of resources or prompts. The rest is left out.
const MAX_ENTRIES: usize = 10_000;
/// The maximum size of an entry of such a list, as JSON text. Larger entries are left out.
const MAX_ENTRY: usize = 64 * 1024;
/// The maximum size of such a list, as JSON text. The rest is left out.
const MAX_LIST: usize = 16 * 1024 * 1024;
/// The maximum length of the URI or name of an entry.
const MAX_KEY: usize = 8 * 1024;
const SHOWN_KEY: usize = 100;

/// A kind of list.
#[derive(Clone, Copy)]
pub(crate) struct List {
    method: &'static str,
    /// The member of the result that holds the entries.
    member: &'static str,
    /// The member that identifies an entry.
    key: &'static str,
}

pub(crate) const TOOLS: List = List { method: "tools/list", member: "tools", key: "name" };
pub(crate) const RESOURCES: List = List { method: "resources/list", member: "resources", key: "uri" };
pub(crate) const TEMPLATES: List =
    List { method: "resources/templates/list", member: "resourceTemplates", key: "uriTemplate" };
pub(crate) const PROMPTS: List = List { method: "prompts/list", member: "prompts", key: "name" };

/// Whether to continue with the next entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    More,
    NoMore,
}

impl Connection {
    /// All valid entries, unchanged.
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
            tracing::warn!(server = %self.server(), list = list.method, left_out, "left out invalid entries");
        }
        Ok(entries)
    }

    /// Passes the entries to `take` one by one, page by page. A server that does not know the method has no entries.
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
                return Err(self.protocol("it did not send a valid list"));
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
