//! Follows words and commands through a bash script, and reports what the rules are about.

mod commands;
mod facts;
mod words;

use crate::facts::paths;
use crate::report::{Analysis, Spot, shown};
use crate::rules::Rule;
use crate::uses::ToolUse;
use coracle_types::Language;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use tree_sitter::{Node, ParseOptions, Parser, Tree};
use words::{GAP, Words};

/// Maximum depth of the syntax tree that is looked at.
const MAX_DEPTH: usize = 250;

/// Maximum time for parsing. Usual scripts take less than a millisecond.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Maximum number of programs in each other, such as Python in a bash script.
const MAX_LEVELS: usize = 3;

/// Maximum number of commands and words of one script that are looked at.
const MAX_WORK: usize = 400_000;

/// Where the standard input of a command comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Input {
    /// From the caller, or from a file.
    Inherited,
    /// This text, with [`GAP`]s and marks for unknown parts.
    Text(String),
    /// From other commands.
    Commands { is_fetched: bool, is_decoded: bool },
}

/// Analyses a program within a script, at this level.
pub(crate) type Nested = fn(Language, &str, usize) -> Analysis;

struct Bash<'a> {
    code: &'a str,
    nested: Nested,
    /// Number of programs around this one.
    level: usize,
    variables: HashMap<String, Words>,
    arrays: HashMap<String, Vec<Words>>,
    /// Functions that run their arguments as a command.
    wrappers: HashSet<String>,
    is_in_function: bool,
    /// What substitutions may be, by node: they are nested, and each is looked at more than once.
    substituted: RefCell<HashMap<usize, Words>>,
    work: usize,
    found: Analysis,
}

/// Analyses a script. `level` is the number of programs around it.
pub(crate) fn analyse(code: &str, level: usize, nested: Nested) -> Analysis {
    let mut bash = Bash {
        code,
        nested,
        level,
        variables: HashMap::new(),
        arrays: HashMap::new(),
        wrappers: HashSet::new(),
        is_in_function: false,
        substituted: RefCell::default(),
        work: 0,
        found: Analysis::default(),
    };
    match parse(code) {
        Some(tree) => {
            let root = tree.root_node();
            if root.has_error() {
                bash.syntax(root);
            }
            bash.collect(root, 0);
            bash.substituted.borrow_mut().clear();
            bash.walk(root, 0);
        }
        None => bash.report(0, Rule::Size, "the script is too complex to be parsed".to_owned(), None),
    }
    bash.found
}

fn parse(code: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let begun = Instant::now();
    let mut progress =
        |_: &_| if begun.elapsed() > MAX_TIME { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = code.as_bytes();
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

impl Bash<'_> {
    fn text(&self, node: Node<'_>) -> &str {
        self.code.get(node.byte_range()).unwrap_or_default()
    }

    fn report(&mut self, at: usize, rule: Rule, message: String, name: Option<&str>) {
        self.found.spots.push(Spot { at, rule, message, name: name.map(str::to_owned) });
    }

    fn is_too_much(&mut self, at: usize, depth: usize) -> bool {
        self.work += 1;
        if depth < MAX_DEPTH && self.work < MAX_WORK {
            return false;
        }
        if !self.found.spots.iter().any(|spot| spot.rule == Rule::Size) {
            self.report(at, Rule::Size, "the script is nested too deeply or too long to be checked".to_owned(), None);
        }
        true
    }

    /// Reports the first part that could not be parsed.
    fn syntax(&mut self, root: Node<'_>) {
        let mut node = root;
        while !node.is_error() && !node.is_missing() {
            let Some(next) = children(node).into_iter().find(|child| child.has_error() || child.is_missing()) else {
                break;
            };
            node = next;
        }
        self.report(node.start_byte(), Rule::Syntax, "the script cannot be parsed here".to_owned(), None);
    }

    /// Collects the values of variables, and functions that run their arguments.
    fn collect(&mut self, node: Node<'_>, depth: usize) {
        if self.is_too_much(node.start_byte(), depth) {
            return;
        }
        match node.kind() {
            "variable_assignment" => self.assign(node),
            "for_statement" => {
                let mut cursor = node.walk();
                let values: Vec<Node<'_>> = node.children_by_field_name("value", &mut cursor).collect();
                if let Some(variable) = node.child_by_field_name("variable") {
                    let name = self.text(variable).to_owned();
                    let words: Vec<Words> = values.into_iter().map(|value| self.words(value, 0)).collect();
                    for word in words {
                        self.variables.entry(name.clone()).or_default().add(&word);
                    }
                }
            }
            "function_definition" => {
                if let (Some(name), Some(body)) = (node.child_by_field_name("name"), node.child_by_field_name("body"))
                    && self.runs_arguments(body, 0)
                {
                    let name = self.text(name).to_owned();
                    self.wrappers.insert(name);
                }
            }
            // What `read` and its like put into variables is not known.
            "command" => {
                let parts = children(node);
                let name = parts.first().map(|name| self.text(*name).to_owned()).unwrap_or_default();
                if ["read", "mapfile", "readarray", "getopts", "printf"].contains(&name.as_str()) {
                    let is_printf = name == "printf";
                    let mut is_next = !is_printf;
                    for part in parts.into_iter().skip(1) {
                        let name = self.text(part).to_owned();
                        if is_next && !name.starts_with('-') {
                            self.variables.entry(name).or_default().add(&Words::unknown());
                        } else if is_printf {
                            is_next = name == "-v";
                        }
                    }
                }
            }
            _ => {}
        }
        for child in children(node) {
            self.collect(child, depth + 1);
        }
    }

    fn assign(&mut self, node: Node<'_>) {
        let Some(name) = node.child_by_field_name("name") else { return };
        let name = self.text(name).to_owned();
        let is_sum = children(node).iter().any(|child| child.kind() == "+=");
        match node.child_by_field_name("value") {
            Some(value) if value.kind() == "array" => {
                let words: Vec<Words> =
                    children(value).into_iter().filter(Node::is_named).map(|child| self.words(child, 0)).collect();
                self.arrays.entry(name).or_default().extend(words);
            }
            Some(value) => {
                let mut words = self.words(value, 0);
                if is_sum {
                    words = self.variables.get(&name).cloned().unwrap_or_else(Words::empty).then(&words);
                }
                self.variables.entry(name).or_default().add(&words);
            }
            None => self.variables.entry(name).or_default().add(&Words::empty()),
        }
    }

    /// Whether a function runs its arguments as a command.
    fn runs_arguments(&self, node: Node<'_>, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return true;
        }
        if node.kind() == "command_name" && is_argument(self.text(node)) {
            return true;
        }
        children(node).into_iter().any(|child| self.runs_arguments(child, depth + 1))
    }

    /// Looks at a statement and all that is in it.
    fn walk(&mut self, node: Node<'_>, depth: usize) {
        if self.is_too_much(node.start_byte(), depth) {
            return;
        }
        match node.kind() {
            "pipeline" => self.pipeline(node, depth),
            "command" => self.command(node, &Input::Inherited, depth),
            "redirected_statement" => self.redirected(node, &Input::Inherited, depth),
            "variable_assignment" => {
                self.assignment(node);
                self.inside(node, depth);
            }
            "file_redirect" => {
                self.redirect(node);
                self.inside(node, depth);
            }
            "function_definition" => {
                self.bomb(node);
                let was_in_function = std::mem::replace(&mut self.is_in_function, true);
                self.inside(node, depth);
                self.is_in_function = was_in_function;
            }
            _ => self.inside(node, depth),
        }
    }

    fn inside(&mut self, node: Node<'_>, depth: usize) {
        for child in children(node) {
            self.walk(child, depth + 1);
        }
    }

    fn pipeline(&mut self, node: Node<'_>, depth: usize) {
        let mut input = Input::Inherited;
        for part in children(node).into_iter().filter(Node::is_named) {
            self.with_input(part, &input, depth + 1);
            input = self.output(part, input);
        }
    }

    fn with_input(&mut self, node: Node<'_>, input: &Input, depth: usize) {
        match node.kind() {
            "command" => self.command(node, input, depth),
            "redirected_statement" => self.redirected(node, input, depth),
            "negated_command" | "compound_statement" | "subshell" | "list" | "do_group" | "while_statement" => {
                let parts = children(node);
                for part in parts {
                    self.with_input(part, input, depth + 1);
                }
            }
            _ => self.walk(node, depth),
        }
    }

    /// What a part of a pipeline writes.
    #[expect(clippy::needless_pass_by_value, reason = "the input of a part ends with it")]
    fn output(&self, part: Node<'_>, input: Input) -> Input {
        if let ("command", Some(text)) = (part.kind(), self.echoed(part)) {
            return Input::Text(text);
        }
        let (mut is_fetched, mut is_decoded) = match input {
            Input::Commands { is_fetched, is_decoded } => (is_fetched, is_decoded),
            Input::Inherited | Input::Text(_) => (false, false),
        };
        let (fetches, decodes) = self.sources(part, 0);
        is_fetched |= fetches;
        is_decoded |= decodes;
        Input::Commands { is_fetched, is_decoded }
    }

    /// Whether a statement downloads, and whether it decodes.
    fn sources(&self, node: Node<'_>, depth: usize) -> (bool, bool) {
        if depth > MAX_DEPTH {
            return (true, true);
        }
        if node.kind() == "command" {
            let name = node.child_by_field_name("name").map_or_else(Words::unknown, |name| self.words(name, 0));
            let arguments = self.arguments(node);
            let has = |options: &[&str]| {
                arguments.iter().any(|argument| argument.whole().is_some_and(|text| options.contains(&text)))
            };
            let name = name.whole().map(words::base).unwrap_or_default();
            let fetches = facts::FETCHERS.contains(&name);
            let decodes = match name {
                "base64" | "base32" => has(&["-d", "--decode", "-D", "-di"]),
                "xxd" => has(&["-r", "-p", "-rp", "-r -p"]),
                "openssl" => has(&["-d", "base64", "enc"]),
                "gzip" | "bzip2" | "xz" | "zstd" => has(&["-d", "-dc", "--decompress"]),
                "gunzip" | "zcat" | "bunzip2" | "unxz" | "xzcat" | "uudecode" | "rev" | "tr" => true,
                _ => false,
            };
            return (fetches, decodes);
        }
        let mut found = (false, false);
        for child in children(node) {
            let (fetches, decodes) = self.sources(child, depth + 1);
            found = (found.0 | fetches, found.1 | decodes);
        }
        found
    }

    fn redirected(&mut self, node: Node<'_>, input: &Input, depth: usize) {
        let mut input = input.clone();
        for redirect in children(node) {
            match redirect.kind() {
                "heredoc_redirect" => {
                    let body = children(redirect).into_iter().find(|child| child.kind() == "heredoc_body");
                    let start = children(redirect).into_iter().find(|child| child.kind() == "heredoc_start");
                    let is_quoted = start.is_some_and(|start| self.text(start).contains(['\'', '"', '\\']));
                    let text = body.map(|body| if is_quoted { self.text(body).to_owned() } else { self.heredoc(body) });
                    input = Input::Text(text.unwrap_or_default());
                }
                "herestring_redirect" => {
                    let words = children(redirect).into_iter().find(Node::is_named).map(|word| self.words(word, 0));
                    input = Input::Text(words.unwrap_or_default().any());
                }
                "file_redirect" => {
                    let substituted =
                        children(redirect).into_iter().find(|child| child.kind() == "process_substitution");
                    if let Some(substituted) = substituted {
                        let (is_fetched, is_decoded) = self.sources(substituted, 0);
                        input = Input::Commands { is_fetched, is_decoded };
                    }
                }
                _ => {}
            }
        }
        for child in children(node) {
            if child.kind().ends_with("_redirect") {
                self.walk(child, depth + 1);
            } else {
                self.with_input(child, &input, depth + 1);
            }
        }
    }

    fn redirect(&mut self, node: Node<'_>) {
        let Some(destination) = node.child_by_field_name("destination") else { return };
        for text in self.words(destination, 0).texts() {
            self.file(node.start_byte(), text);
        }
    }

    fn file(&mut self, at: usize, path: &str) {
        if let Some((rule, what)) = paths::file(path) {
            let message = if rule == Rule::RawNetwork {
                format!("{} {what}", shown(&path.replace(GAP, "…")))
            } else {
                format!("uses {}: {what}", shown(&path.replace(GAP, "…")))
            };
            self.report(at, rule, message, None);
        }
    }

    fn assignment(&mut self, node: Node<'_>) {
        let Some(name) = node.child_by_field_name("name") else { return };
        let name = self.text(name).to_owned();
        self.variable(node.start_byte(), &name);
    }

    fn variable(&mut self, at: usize, name: &str) {
        if facts::LOADER_VARIABLES.contains(&name) {
            let message = format!("{name} loads other code into programs");
            self.report(at, Rule::BreakOut, message, Some(name));
        }
    }

    /// Reports a function that calls itself in the background or twice at the same time.
    fn bomb(&mut self, node: Node<'_>) {
        let (Some(name), Some(body)) = (node.child_by_field_name("name"), node.child_by_field_name("body")) else {
            return;
        };
        let name = self.text(name).to_owned();
        if self.multiplies(body, &name, 0) {
            let message = format!("{} calls itself again and again at the same time", shown(&name));
            self.report(node.start_byte(), Rule::Destructive, message, None);
        }
    }

    fn multiplies(&self, node: Node<'_>, name: &str, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        let parts = children(node);
        let calls = |node: &Node<'_>| {
            node.kind() == "command" && node.child_by_field_name("name").is_some_and(|word| self.text(word) == name)
        };
        let piped = |node: &Node<'_>| {
            node.kind() == "pipeline" && children(*node).iter().filter(|part| calls(part)).count() > 1
        };
        let in_background = parts.windows(2).any(|pair| (calls(&pair[0]) || piped(&pair[0])) && pair[1].kind() == "&");
        in_background || piped(&node) || parts.into_iter().any(|part| self.multiplies(part, name, depth + 1))
    }

    /// Checks code that the script runs in another interpreter, or in this one.
    fn nested(&mut self, at: usize, language: Language, code: &str) {
        if self.level >= MAX_LEVELS || self.work.saturating_add(code.len()) > MAX_WORK {
            self.report(at, Rule::Size, "the script runs code that is too complex to be checked".to_owned(), None);
            return;
        }
        self.work += code.len();
        let inner = (self.nested)(language, code, self.level + 1);
        let spots = inner.spots.into_iter().filter(|spot| spot.rule != Rule::Syntax);
        self.found.spots.extend(spots.map(|spot| Spot { at, ..spot }));
        self.found.uses.extend(inner.uses.into_iter().map(|one| ToolUse { at, ..one }));
    }
}

/// Whether a word stands for the arguments of a function.
fn is_argument(word: &str) -> bool {
    let name = word.trim_matches('"').trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
    word.contains('$') && (name == "@" || name == "*" || name.parse::<u32>().is_ok_and(|number| number > 0))
}
