//! The `coracle` commands in the README and in `docs/` exist, with the options that they name.
//!
//! `cargo xtask test` runs those in `console` blocks. Here all of them are looked up on the command line itself, those in
//! running text included.

use crate::Arguments;
use clap::{Command, CommandFactory as _, Parser as _};
use std::fs;
use std::path::{Path, PathBuf};

/// A command in a document.
#[derive(Debug, PartialEq, Eq)]
struct Mention {
    words: Vec<String>,
    /// It stands in a block, to be typed as it is.
    whole: bool,
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut documents: Vec<PathBuf> = ["README.md", "SECURITY.md"].iter().map(|name| root.join(name)).collect();
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    documents.extend(pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    documents
}

/// All commands in the text of a document.
fn mentions(text: &str) -> Vec<Mention> {
    let (mut lines, mut running, mut block) = (Vec::new(), String::new(), None);
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(language) = trimmed.strip_prefix("```") {
            block = block.is_none().then_some(language);
            continue;
        }
        match block {
            None => running.extend([line, "\n"]),
            Some("sh") => lines.push(trimmed.to_owned()),
            // What does not begin like this is output.
            Some("console") => match (trimmed.strip_prefix("$ "), trimmed.strip_prefix("> "), lines.last_mut()) {
                (Some(command), ..) => lines.push(command.to_owned()),
                (None, Some(more), Some(command)) => command.extend(["\n", more]),
                _ => {}
            },
            Some(_) => {}
        }
    }
    let commands = lines.iter().flat_map(|line| simple_commands(line));
    let mut mentions: Vec<Mention> = commands.map(|words| Mention { words, whole: true }).collect();
    // Between backticks; no span goes on in the next paragraph.
    let spans = running.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    for span in spans.filter(|span| span.starts_with("coracle ")) {
        let words = span.replace("\\|", "|").split_whitespace().map(str::to_owned).collect();
        mentions.push(Mention { words, whole: false });
    }
    mentions
}

/// The words of each `coracle` command in a line of a shell, without assignments and redirections.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote) = (None::<String>, None);
    for c in line.chars().chain([' ']) {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            (' ' | '|' | ';' | '&' | '\n', None) => {
                if let (Some(word), Some(last)) = (word.take(), commands.last_mut()) {
                    last.push(word);
                }
                if c != ' ' {
                    commands.push(Vec::new());
                }
            }
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    for words in &mut commands {
        let assignments =
            words.iter().take_while(|word| word.split_once('=').is_some_and(|(name, _)| is_variable(name)));
        let assignments = assignments.count();
        words.drain(..assignments);
        words.retain(|word| !word.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['<', '>']));
    }
    commands.retain(|words| words.first().is_some_and(|word| word == "coracle"));
    commands
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// What a command line does not have of what is mentioned.
fn fault(mention: &Mention) -> Option<String> {
    let is_complete = mention.whole && !mention.words.iter().any(|word| word.contains('…'));
    if is_complete && let Err(error) = Arguments::try_parse_from(&mention.words) {
        return Some(error.to_string());
    }
    let mut root = Arguments::command();
    root.build();
    look_up(&root, mention.words.get(1..).unwrap_or_default())
}

fn look_up(command: &Command, words: &[String]) -> Option<String> {
    let (word, rest) = words.split_first()?;
    if word == "--" || word.contains('…') {
        return None;
    }
    if let Some(option) = word.strip_prefix('-') {
        let (long, name) = match option.strip_prefix('-') {
            Some(long) => (true, long.split('=').next().unwrap_or_default()),
            None => (false, option),
        };
        let is_it = |argument: &&clap::Arg| {
            if long { argument.get_long() == Some(name) } else { argument.get_short() == name.chars().next() }
        };
        let Some(argument) = command.get_arguments().find(is_it) else {
            return Some(format!("`{}` has no option `{word}`", command.get_name()));
        };
        let takes_next = argument.get_action().takes_values() && !word.contains('=');
        return look_up(command, rest.get(usize::from(takes_next)..).unwrap_or_default());
    }
    if let Some(below) = command.find_subcommand(word) {
        return look_up(below, rest);
    }
    // `list|show` stands for both.
    let missing = word.split('|').find(|name| command.find_subcommand(name).is_none());
    match missing.filter(|_| command.has_subcommands() && !command.is_hide_set()) {
        Some(name) => Some(format!("`{}` has no command `{name}`", command.get_name())),
        None => look_up(command, rest),
    }
}

#[test]
fn documents_name_commands_that_exist() {
    let (mut faults, mut number) = (Vec::new(), 0);
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for mention in mentions(&text) {
            number += 1;
            let name = path.file_name().unwrap().display();
            faults.extend(fault(&mention).map(|fault| format!("{name}: {}: {fault}", mention.words.join(" "))));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(number > 100, "the control: {number} commands are mentioned");
}

#[test]
fn commands_are_found_in_blocks_and_in_text() {
    let text = "`coracle tools\nlist` and `other`\n```sh\nA=1 coracle exec -c 'a | b' 2>/dev/null | x; coracle up # no\n```\n\
                ```console\n$ coracle exec -c '1\n> 2'\ncoracle output\n```\n```python\ncoracle = 1\n```\n";
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut exec = words("coracle exec -c");
    exec.push("a | b".to_owned());
    let mut two_lines = words("coracle exec -c");
    two_lines.push("1\n2".to_owned());
    let blocks = [(exec, true), (words("coracle up"), true), (two_lines, true)];
    let expected = blocks.into_iter().chain([(words("coracle tools list"), false)]);
    assert_eq!(mentions(text), expected.map(|(words, whole)| Mention { words, whole }).collect::<Vec<_>>());
}

#[test]
fn faults_are_found() {
    let check = |line: &str, whole| fault(&Mention { words: line.split(' ').map(str::to_owned).collect(), whole });
    for good in ["coracle users add|list", "coracle users", "coracle exec --session NAME", "coracle env add …"] {
        assert_eq!(check(good, false), None, "{good}");
    }
    for bad in ["coracle users sing", "coracle nothing", "coracle exec --sesion NAME", "coracle users add|sing"] {
        assert!(check(bad, false).is_some(), "{bad}");
    }
    assert!(check("coracle users add", true).is_some(), "a name is missing");
    assert_eq!(check("coracle users add ann", true), None);
}
