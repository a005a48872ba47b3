//! The tools for a task: one for each of its steps.

use super::steps::{Act, Step, steps};
use super::{Hit, Query, fields, words};
use crate::catalog::Catalog;
use coracle_types::Tool;

/// The number of best tools that are considered for a step.
const LOOKED_AT: usize = 20;

/// The factors for the score of a tool that changes something in a step that only reads, or the other way round, and of
/// a tool that returns one thing in a step about several.
const OTHER_ACT: f32 = 0.6;
const GIVES_ONE: f32 = 0.8;

/// First words of tools that only read, sorted.
const READING: [&str; 14] = [
    "check", "count", "describe", "fetch", "find", "get", "list", "query", "read", "retrieve", "scan", "search",
    "show", "view",
];

/// First words of tools that change something, sorted.
const CHANGING: [&str; 34] = [
    "add",
    "append",
    "assign",
    "cancel",
    "close",
    "commit",
    "copy",
    "create",
    "delete",
    "drop",
    "edit",
    "insert",
    "install",
    "kill",
    "merge",
    "move",
    "patch",
    "push",
    "put",
    "remove",
    "rename",
    "replace",
    "reset",
    "restart",
    "send",
    "set",
    "start",
    "stop",
    "transfer",
    "trigger",
    "uninstall",
    "update",
    "upload",
    "write",
];

/// Parameters with one of these words limit the number of results, or the time that they are from.
const BOUNDS: [&str; 14] = [
    "after", "before", "count", "cursor", "limit", "max", "offset", "page", "per", "since", "start", "until", "first",
    "top",
];

/// Words in the names of tools that return several things.
const LISTING: [&str; 8] = ["find", "history", "list", "log", "logs", "query", "search", "tree"];

impl Catalog {
    /// The tools for a task, at most `most`, in the order of its steps: for each step the one that fits best. A task
    /// with one step gets all tools whose score is at least `share` of the best; for steps, half of that is enough.
    /// Tools that cannot be called are left out.
    pub fn select(&self, task: &Query<'_>, most: usize, share: f32) -> Vec<Hit<'_>> {
        let steps = steps(task.text);
        if steps.len() < 2 {
            let mut hits = self.search(task, usize::MAX);
            hits.retain(|hit| hit.entry.connect.is_none());
            hits.truncate(most);
            let enough = hits.first().map_or(0.0, |best| best.score * share);
            hits.retain(|hit| hit.score >= enough);
            return hits;
        }
        let mut chosen: Vec<Hit<'_>> = Vec::new();
        for step in &steps {
            if let Some(hit) = self.best_for(step, task)
                && !chosen.iter().any(|other| std::ptr::eq(other.entry, hit.entry))
            {
                chosen.push(hit);
            }
        }
        // A step without a matching tool is done by the code around the calls. Scores differ more between texts than
        // between tools.
        let best = chosen.iter().map(|hit| hit.score).fold(0.0, f32::max);
        chosen.retain(|hit| hit.score >= best * share / 2.0);
        chosen.truncate(most);
        chosen
    }

    fn best_for(&self, step: &Step, task: &Query<'_>) -> Option<Hit<'_>> {
        // The external model has vectors of the task, but not of its steps.
        let query = Query { text: &step.text, foreign: None, ..*task };
        let mut hits = self.search(&query, usize::MAX);
        hits.retain(|hit| hit.entry.connect.is_none());
        hits.truncate(LOOKED_AT);
        let is_about_many = step.is_about_many();
        for hit in &mut hits {
            let Some((_, tool)) = self.locate(hit.entry) else { continue };
            let name = bare_name(&hit.entry.server, &hit.entry.name);
            let is_other = match step.act {
                Act::Reads => changes(tool, &name),
                Act::Puts => reads(tool, &name),
                Act::Anything => false,
            };
            if is_other {
                hit.score *= OTHER_ACT;
            }
            if step.act == Act::Reads && is_about_many && !gives_many(tool, &name) {
                hit.score *= GIVES_ONE;
            }
        }
        // Of equal scores, the first wins.
        hits.into_iter().reduce(|best, hit| if hit.score > best.score { hit } else { best })
    }
}

/// The words of a tool's name without those of its server's name.
fn bare_name(server: &str, name: &str) -> Vec<String> {
    let (mut of_server, mut of_name) = (Vec::new(), Vec::new());
    words::each_word(server, |word| of_server.push(word.to_owned()));
    words::each_word(name, |word| of_name.push(word.to_owned()));
    of_name.retain(|word| !of_server.contains(word));
    of_name
}

/// Whether a tool changes something, by the server's hint, or else by its name.
fn changes(tool: &Tool, name: &[String]) -> bool {
    tool.hints.read_only.map_or_else(|| begins_with(name, &CHANGING), |reads| !reads)
}

/// Whether a tool only reads, by the server's hint, or else by its name.
fn reads(tool: &Tool, name: &[String]) -> bool {
    tool.hints.read_only.unwrap_or_else(|| begins_with(name, &READING))
}

/// Whether the name begins with one of these sorted words.
fn begins_with(name: &[String], words: &[&str]) -> bool {
    name.first().is_some_and(|first| words.binary_search(&first.as_str()).is_ok())
}

fn gives_many(tool: &Tool, name: &[String]) -> bool {
    if name.iter().any(|word| LISTING.contains(&word.as_str())) {
        return true;
    }
    let mut is_bounded = false;
    for parameter in fields::parameters(tool) {
        words::each_word(&parameter, |word| is_bounded |= BOUNDS.contains(&word));
    }
    is_bounded
}

#[cfg(test)]
mod tests {
    use super::{CHANGING, READING};

    #[test]
    fn the_lists_are_sorted() {
        assert!(CHANGING.is_sorted() && READING.is_sorted());
    }
}
