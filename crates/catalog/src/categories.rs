//! Categories of tools: set by the configuration or the registry, or by the server for a tool, or else guessed from the
//! meaning of the server's tools.

use crate::catalog::{Catalog, Entry};
use crate::layout::{self, ServerTools};
use crate::search::{Vector, meaning};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The categories that can be guessed, with words that describe each.
const TOPICS: [(&str, &str); 18] = [
    ("ai", "machine learning neural network training inference embedding dataset huggingface"),
    ("browser", "browser page click screenshot navigate website scrape html element crawl"),
    ("calendar", "calendar event meeting schedule reminder date hour day current time zone timezones convert"),
    ("cloud", "cloud deploy container cluster kubernetes docker instance infrastructure monitoring logs"),
    ("code", "code repository commit branch pull request issue git build debug package dependency"),
    ("communication", "email message chat channel send mail slack notification contact"),
    ("data", "database query sql table column row schema record"),
    ("design", "design icon component chart diagram drawing color interface layout"),
    ("documents", "document pdf spreadsheet slide presentation word paragraph worksheet cell"),
    ("files", "file folder directory path filesystem storage upload copy"),
    ("finance", "stock price market payment invoice currency trading company earnings bank"),
    ("health", "health medical disease drug gene protein clinical patient"),
    ("maps", "map location weather travel route hotel flight train place address"),
    ("math", "calculate number math statistics random equation arithmetic"),
    ("media", "video music audio song photo movie picture play game"),
    ("memory", "memory knowledge graph entity remember relation thought note"),
    ("research", "search news paper article academic citation web results wikipedia"),
    ("shopping", "product shop order cart recipe food restaurant customer sale"),
];

/// Words that any server may use about itself.
const GENERAL: [&str; 12] =
    ["api", "agent", "assistant", "context", "mcp", "model", "protocol", "server", "service", "sdk", "tool", "tools"];

/// The category of servers that match no topic.
const OTHER: &str = "other";

/// The minimum similarity of a server to its topic.
const ALIKE: f32 = 0.25;

/// The number of tools that are considered for a server.
const LOOKED_AT: usize = 50;

/// A category, and how many tools are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// The name of the category.
    pub name: String,
    /// The number of tools in the category, including those that cannot be called yet.
    pub tools: usize,
    /// The servers of these tools, by name.
    pub servers: Vec<String>,
}

impl Catalog {
    /// The category of a tool of this catalogue.
    pub fn category(&self, entry: &Entry) -> &str {
        let Some((place, tool)) = self.locate(entry) else { return OTHER };
        let said = self.indexed().get(place).and_then(|server| server.category.as_deref());
        let guessed = || self.categories_of_servers().get(place).map_or(OTHER, String::as_str);
        said.or(tool.category.as_deref()).unwrap_or_else(guessed)
    }

    /// Every category, by name.
    pub fn categories(&self) -> Vec<Category> {
        let mut all: BTreeMap<&str, Category> = BTreeMap::new();
        for (_, entry) in self.searched() {
            let name = self.category(entry);
            let category =
                all.entry(name).or_insert_with(|| Category { name: name.to_owned(), tools: 0, servers: Vec::new() });
            category.tools += 1;
            if !category.servers.contains(&entry.server) {
                category.servers.push(entry.server.clone());
            }
        }
        all.into_values().collect()
    }

    /// Whether this category has tools, ignoring case. The name of a server also counts as a category.
    pub fn knows_category(&self, category: &str) -> bool {
        self.knows_server(category) || self.searched().any(|(_, entry)| self.is_in(entry, category))
    }

    /// Whether a tool is in a category, ignoring case. The name of a server also counts as a category.
    pub fn is_in(&self, entry: &Entry, category: &str) -> bool {
        entry.server == category
            || entry.package == category
            || self.category(entry).to_lowercase() == category.to_lowercase()
    }
}

/// The category that was set for a server, or else the most similar topic.
pub(crate) fn of_server(server: &ServerTools) -> String {
    static MEANINGS: OnceLock<Vec<Vector>> = OnceLock::new();
    if let Some(category) = &server.category {
        return category.clone();
    }
    let topics = MEANINGS.get_or_init(|| TOPICS.iter().map(|(_, words)| meaning(words)).collect());
    let mut text = format!("{} {}", server.name, server.description.as_deref().unwrap_or_default());
    for tool in server.tools.iter().take(LOOKED_AT) {
        text.push(' ');
        text.push_str(&tool.name);
        text.push(' ');
        text.push_str(&layout::summary(tool));
    }
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    let telling = words.filter(|word| !GENERAL.contains(&word.to_lowercase().as_str()));
    let text = telling.collect::<Vec<_>>().join(" ");
    let of_server = meaning(&text);
    let alike = |topic: &Vector| topic.iter().zip(of_server).map(|(one, other)| one * other).sum::<f32>();
    let best = topics.iter().map(alike).zip(TOPICS).max_by(|(one, _), (other, _)| one.total_cmp(other));
    match best {
        Some((likeness, (name, _))) if likeness >= ALIKE => name.to_owned(),
        _ => OTHER.to_owned(),
    }
}
