//! Finds tools by words: a small BM25 over names, descriptions and parameters.

use crate::catalog::{Catalog, Entry};
use crate::layout;
use coracle_types::Tool;
use std::collections::HashMap;

/// Longer queries are cut: nobody means that many words.
const MAX_WORDS: usize = 32;
/// Of a description so much is searched.
const SEARCHED_CHARS: usize = 4_000;

/// How much a word counts by where it stands.
const IN_NAME: f64 = 3.0;
const IN_SERVER: f64 = 2.0;
const IN_TEXT: f64 = 1.0;

/// The usual constants of BM25: how soon a repeated word stops counting, and how much length does.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// A tool that was found.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    /// The tool.
    pub entry: &'a Entry,
    /// How well it fits: for comparing with others of the same search.
    pub score: f64,
}

impl Catalog {
    /// The tools that fit a query best, best first; with no words in the query, all in order. `server` keeps those of one
    /// server, by its name or package.
    pub fn search(&self, query: &str, server: Option<&str>, limit: usize) -> Vec<Hit<'_>> {
        let mut words: Vec<String> = self::words(query);
        words.sort();
        words.dedup();
        words.truncate(MAX_WORDS);
        let tools: Vec<(&Entry, &Tool)> = self
            .entries()
            .filter(|(entry, _)| server.is_none_or(|server| entry.server == server || entry.package == server))
            .collect();
        let mut hits = if words.is_empty() {
            tools.iter().map(|(entry, _)| Hit { entry, score: 0.0 }).collect()
        } else {
            ranked(&tools, &words)
        };
        hits.truncate(limit);
        hits
    }
}

fn ranked<'a>(tools: &[(&'a Entry, &'a Tool)], words: &[String]) -> Vec<Hit<'a>> {
    let counted: Vec<(HashMap<String, f64>, f64)> = tools.iter().map(|(entry, tool)| weights(entry, tool)).collect();
    let count = number(counted.len().max(1));
    let average = (counted.iter().map(|(_, length)| length).sum::<f64>() / count).max(1.0);
    let rarity: Vec<f64> = words
        .iter()
        .map(|word| {
            let having = number(counted.iter().filter(|(weights, _)| weights.contains_key(word)).count());
            (1.0 + (count - having + 0.5) / (having + 0.5)).ln()
        })
        .collect();
    let mut hits: Vec<Hit<'a>> = tools
        .iter()
        .zip(&counted)
        .map(|((entry, _), (weights, length))| {
            let damping = SATURATION * (1.0 - LENGTH + LENGTH * length / average);
            let of = |(word, rarity): (&String, &f64)| {
                let weight = weights.get(word).copied().unwrap_or_default();
                rarity * weight * (SATURATION + 1.0) / (weight + damping)
            };
            Hit { entry, score: words.iter().zip(&rarity).map(of).sum() }
        })
        .filter(|hit| hit.score > 0.0)
        .collect();
    // Stable, so that equals stay in order of their names.
    hits.sort_by(|one, other| other.score.total_cmp(&one.score));
    hits
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The words of a tool, how much each counts, and how many there are.
fn weights(entry: &Entry, tool: &Tool) -> (HashMap<String, f64>, f64) {
    let mut weights: HashMap<String, f64> = HashMap::new();
    let mut length = 0.0;
    let mut add = |text: &str, weight: f64| {
        for word in words(text) {
            *weights.entry(word).or_default() += weight;
            length += 1.0;
        }
    };
    add(&entry.function, IN_NAME);
    add(&entry.server, IN_SERVER);
    let description: String = layout::words(tool).chars().take(SEARCHED_CHARS).collect();
    add(&description, IN_TEXT);
    if let Some(parameters) = tool.input_schema.get("properties").and_then(|properties| properties.as_object()) {
        for name in parameters.keys() {
            add(name, IN_TEXT);
        }
    }
    (weights, length)
}

/// Words in lower case, split at everything that is no letter or digit and where a capital follows a small letter, without
/// the commonest endings of English. What is written without spaces is searched letter pair by letter pair.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut after_small = false;
    for letter in text.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && after_small) {
            finish(&mut word, &mut words);
        }
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
        after_small = letter.is_lowercase() || letter.is_numeric();
    }
    finish(&mut word, &mut words);
    words
}

fn finish(word: &mut String, words: &mut Vec<String>) {
    let whole = std::mem::take(word);
    if whole.is_empty() {
        return;
    }
    if whole.chars().any(is_unspaced) {
        let letters: Vec<char> = whole.chars().collect();
        match letters.as_slice() {
            [_] => words.push(whole),
            all => words.extend(all.windows(2).map(|pair| pair.iter().collect::<String>())),
        }
        return;
    }
    words.push(stem(&whole).to_owned());
}

/// Scripts that are written without spaces between words.
fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{e00}'..='\u{eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

fn stem(word: &str) -> &str {
    const SHORTEST: usize = 3;
    for ending in ["ing", "ies", "es", "ed", "s", "e", "y"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.chars().count() >= SHORTEST
        {
            return stem;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::words;
    use crate::{Catalog, ServerTools};
    use coracle_types::{ServerName, Tool, ToolHints};
    use serde_json::json;

    fn tool(server: &str, name: &str, description: &str) -> Tool {
        let schema = json!({ "type": "object", "properties": { "repoPath": { "type": "string" } } });
        Tool {
            server: ServerName::new(server).unwrap(),
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: schema.as_object().unwrap().clone(),
            output_schema: None,
            hints: ToolHints::default(),
        }
    }

    fn catalog() -> Catalog {
        let server = |name: &str, tools: &[(&str, &str)]| ServerTools {
            name: ServerName::new(name).unwrap(),
            description: None,
            tools: tools.iter().map(|(tool_name, text)| tool(name, tool_name, text)).collect(),
            shapes: std::collections::BTreeMap::new(),
        };
        Catalog::new(vec![
            server("git", &[("git_status", "Shows the working tree status"), ("git_log", "Shows the commit logs")]),
            server(
                "files",
                &[("readFile", "Reads a file"), ("write_file", "Writes text"), ("搜索文件", "在文件夹中搜索")],
            ),
        ])
    }

    fn found(query: &str) -> Vec<String> {
        catalog().search(query, None, 10).iter().map(|hit| hit.entry.name.clone()).collect()
    }

    #[test]
    fn words_are_split_and_stemmed() {
        assert_eq!(words("listPullRequests HTTP2Server"), ["list", "pull", "request", "http2", "server"]);
        assert_eq!(words("queries query_queried"), ["quer", "quer", "queri"]);
        assert_eq!(words("搜索文件"), ["搜索", "索文", "文件"]);
        assert!(words(" -_. ").is_empty());
    }

    #[test]
    fn names_count_more_than_descriptions() {
        assert_eq!(found("status").first().map(String::as_str), Some("git_status"));
        assert_eq!(found("reading files").first().map(String::as_str), Some("readFile"));
        assert_eq!(found("搜索").first().map(String::as_str), Some("搜索文件"));
        assert!(found("zebra").is_empty());
    }

    #[test]
    fn a_server_narrows_and_no_words_mean_all() {
        let catalog = catalog();
        assert_eq!(catalog.search("", None, 10).len(), 5);
        assert_eq!(catalog.search("", Some("git"), 10).len(), 2);
        assert_eq!(catalog.search("file", Some("git"), 10).len(), 0);
        assert_eq!(catalog.search("file", Some("files"), 1).len(), 1);
    }
}
