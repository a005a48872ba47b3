//! Splits a task into steps: what to fetch first, and what to do with it.
//!
//! A task is split where another verb begins ("read the notes, then delete them"), and where something existing is to
//! be put somewhere else: "write the last commits to a file" needs a tool that returns commits, and one that writes a
//! file.

use super::parts::cuts;
use super::words::{each_word, is_stop_word};

/// The maximum number of steps.
const MAX_STEPS: usize = 8;

/// Verbs that begin a step, in addition to `PUTTING`, sorted.
const VERBS: [&str; 73] = [
    "add",
    "analyse",
    "analyze",
    "apply",
    "approve",
    "archive",
    "assign",
    "attach",
    "book",
    "build",
    "calculate",
    "cancel",
    "check",
    "clone",
    "close",
    "collect",
    "combine",
    "commit",
    "compare",
    "compute",
    "convert",
    "copy",
    "count",
    "create",
    "delete",
    "deploy",
    "describe",
    "download",
    "draw",
    "edit",
    "extract",
    "fetch",
    "fill",
    "filter",
    "find",
    "generate",
    "import",
    "insert",
    "inspect",
    "list",
    "load",
    "look",
    "merge",
    "move",
    "notify",
    "open",
    "plot",
    "push",
    "put",
    "query",
    "read",
    "remove",
    "rename",
    "replace",
    "restart",
    "retrieve",
    "review",
    "run",
    "scan",
    "schedule",
    "scrape",
    "search",
    "set",
    "show",
    "sort",
    "start",
    "stop",
    "sum",
    "summarise",
    "summarize",
    "take",
    "translate",
    "update",
];

/// Verbs that put existing content somewhere else, sorted.
const PUTTING: [&str; 18] = [
    "append", "dump", "email", "export", "forward", "log", "mail", "message", "post", "print", "publish", "record",
    "report", "save", "send", "share", "store", "write",
];

/// Words that tools use, with the words that people use instead.
const CALLED: [(&str, &[&str]); 2] = [
    ("write", &["dump", "export", "log", "record", "save", "store"]),
    ("send", &["email", "forward", "mail", "share"]),
];

/// Prepositions before the destination. The second list is used only if none of the first occurs.
const WHITHER: [&[&str]; 2] = [&["to", "into", "onto"], &["in", "on", "by", "via"]];

/// Words that refer to the result of an earlier step.
const GIVEN_BEFORE: [&str; 13] = [
    "answer",
    "answers",
    "everything",
    "findings",
    "it",
    "output",
    "result",
    "results",
    "summary",
    "that",
    "them",
    "these",
    "this",
];

/// First words of content that does not exist yet.
const MADE_UP: [&str; 4] = ["a", "an", "new", "some"];

/// One step of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The text to search for.
    pub(super) text: String,
    pub(super) act: Act,
}

/// The kind of a step, as far as its words show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The step fetches something and changes nothing.
    Reads,
    /// The step writes or sends something.
    Puts,
    Anything,
}

impl Step {
    /// Whether the step is about several things, judging by the last word before the first preposition.
    pub(super) fn is_about_many(&self) -> bool {
        let mut before = Vec::new();
        let mut is_over = false;
        each_word(&self.text, |word| {
            is_over |= ["of", "in", "from", "on", "for", "with", "by", "at", "that"].contains(&word);
            if !is_over {
                before.push(word.to_owned());
            }
        });
        let is_plural =
            |word: &String| word.strip_suffix('s').is_some_and(|one| one.len() > 2 && !one.ends_with(['s', 'u', 'i']));
        before.last().is_some_and(is_plural)
    }
}

/// The steps of a task, in order.
pub(super) fn steps(task: &str) -> Vec<Step> {
    let mut clauses: Vec<String> = Vec::new();
    for piece in cuts(task).iter().map(|piece| piece.trim()).filter(|piece| telling(piece).next().is_some()) {
        match clauses.last_mut() {
            // A verb alone has its object in the next piece, and a piece without a verb continues the one before.
            Some(last) if !begins_with_a_verb(piece) || telling(last).nth(1).is_none() => {
                last.push_str(", ");
                last.push_str(piece);
            }
            _ => clauses.push(piece.to_owned()),
        }
    }
    let mut steps: Vec<Step> = clauses.iter().flat_map(|clause| steps_of(clause)).collect();
    steps.truncate(MAX_STEPS);
    steps
}

/// One step, or two if existing content is to be put somewhere.
fn steps_of(clause: &str) -> Vec<Step> {
    let whole = |act| vec![Step { text: clause.to_owned(), act }];
    let words: Vec<&str> = clause.split_whitespace().collect();
    let plain: Vec<String> = words.iter().map(|word| bare(word)).collect();
    let Some(verb) = plain.iter().position(|word| !is_stop_word(word) && !word.is_empty()) else {
        return whole(Act::Anything);
    };
    if PUTTING.binary_search(&plain[verb].as_str()).is_err() {
        return whole(Act::Anything);
    }
    let whither = WHITHER.iter().find_map(|list| {
        let found = plain[verb + 1..].iter().position(|word| list.contains(&word.as_str()))?;
        Some(verb + 1 + found)
    });
    let Some(whither) = whither else { return whole(Act::Puts) };
    let (what, place) = (&words[verb + 1..whither], words[whither..].join(" "));
    let is_quoted = what.first().is_some_and(|word| word.starts_with(['"', '\'', '`', '“', '‘', '«']));
    let is_made_up = plain.get(verb + 1).is_none_or(|word| MADE_UP.contains(&word.as_str()));
    let what = what.join(" ");
    let is_new = telling(&what).any(|word| GIVEN_BEFORE.binary_search(&word.as_str()).is_err());
    if is_quoted || is_made_up || !is_new || telling(&place).next().is_none() {
        return whole(Act::Puts);
    }
    let put = match CALLED.iter().find(|(_, others)| others.contains(&plain[verb].as_str())) {
        Some((called, _)) => format!("{} ({called}) {place}", words[verb]),
        None => format!("{} {place}", words[verb]),
    };
    vec![Step { text: what, act: Act::Reads }, Step { text: put, act: Act::Puts }]
}

fn begins_with_a_verb(clause: &str) -> bool {
    let first = telling(clause).next().unwrap_or_default();
    VERBS.binary_search(&first.as_str()).is_ok() || PUTTING.binary_search(&first.as_str()).is_ok()
}

/// The significant words.
fn telling(text: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    each_word(text, |word| {
        if !is_stop_word(word) {
            words.push(word.to_owned());
        }
    });
    words.into_iter()
}

/// The word in lower case, without surrounding punctuation.
fn bare(word: &str) -> String {
    word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{Act, GIVEN_BEFORE, PUTTING, Step, VERBS, steps};

    fn told(task: &str) -> Vec<String> {
        let told = |step: &Step| format!("{}{}", if step.act == Act::Reads { "get: " } else { "" }, step.text);
        steps(task).iter().map(told).collect()
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(VERBS.is_sorted() && PUTTING.is_sorted() && GIVEN_BEFORE.is_sorted());
    }

    #[test]
    fn existing_content_is_fetched_first() {
        for (task, expected) in [
            (
                "write the last commits of a repository to a file",
                &["get: the last commits of a repository", "write to a file"][..],
            ),
            ("Please send tomorrow's forecast by mail", &["get: tomorrow's forecast", "send by mail"]),
            ("save all open issues in a spreadsheet", &["get: all open issues", "save (write) in a spreadsheet"]),
            ("read the notes, then post them to the channel", &["read the notes", "post them to the channel"]),
            ("search and replace a word in the notes", &["search, replace a word in the notes"]),
            ("list the branches and tags", &["list the branches, tags"]),
        ] {
            assert_eq!(told(task), expected, "{task}");
        }
    }

    #[test]
    fn new_or_given_content_is_not_fetched() {
        for task in [
            "write a poem to a file",
            "write \"hello\" to a file",
            "write hello",
            "send it to Anna",
            "move the notes to another folder",
            "open issues",
        ] {
            assert_eq!(told(task), [task]);
        }
        assert!(steps("").is_empty() && steps("and, then: the!").is_empty());
        assert_eq!(steps(&"list open issues and close old ones. ".repeat(50)).len(), 8);
    }

    #[test]
    fn several_things_are_distinguished_from_one() {
        let is_about_many = |text: &str| Step { text: text.to_owned(), act: Act::Reads }.is_about_many();
        assert!(is_about_many("the last commits of a repository") && is_about_many("all open issues"));
        assert!(!is_about_many("the status of all branches") && !is_about_many("the address"));
    }
}
