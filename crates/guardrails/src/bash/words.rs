//! What is known about words before they are expanded.

use super::{Bash, MAX_DEPTH, children};
use tree_sitter::Node;

/// An unknown part of a word.
pub(super) const GAP: char = crate::value::GAP;
/// A part that was decoded or decompressed.
pub(super) const DECODED: char = '\u{e000}';
/// A part that was downloaded.
pub(super) const FETCHED: char = '\u{e001}';

/// Maximum length of a word that is put together here, in bytes.
const MAX_WORD: usize = 8 << 10;

/// Maximum number of values that one word may have.
const MAX_VALUES: usize = 6;

/// Everything that a word may be, with marks for unknown parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words(Vec<String>);

impl Words {
    pub(super) fn unknown() -> Self {
        Self(vec![GAP.to_string()])
    }

    pub(super) fn empty() -> Self {
        Self(vec![String::new()])
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self(vec![text.into()])
    }

    /// Literal text of the script, which cannot contain marks.
    fn literal(text: &str) -> Self {
        Self::text(text.replace([GAP, DECODED, FETCHED], "?"))
    }

    pub(super) fn add(&mut self, other: &Self) {
        for text in &other.0 {
            if self.0.contains(text) {
                continue;
            }
            let is_full = self.0.len() >= MAX_VALUES;
            let text = if is_full { GAP.to_string() } else { text.clone() };
            if !self.0.contains(&text) {
                self.0.push(text);
            }
            if is_full {
                break;
            }
        }
    }

    /// This word, followed by another one without space between them.
    pub(super) fn then(&self, other: &Self) -> Self {
        let mut sum = Self::default();
        for one in &self.0 {
            for two in &other.0 {
                let text = if one.len() + two.len() > MAX_WORD { GAP.to_string() } else { format!("{one}{two}") };
                sum.add(&Self(vec![text]));
            }
        }
        sum
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The text, if there is only one and all of it is known.
    pub(super) fn whole(&self) -> Option<&str> {
        match self.0.as_slice() {
            [one] if is_whole(one) => Some(one),
            _ => None,
        }
    }

    /// One of the texts: the one of which the least is known.
    pub(super) fn any(&self) -> String {
        self.0.iter().find(|text| !is_whole(text)).or(self.0.first()).cloned().unwrap_or_default()
    }
}

/// Whether all of a text is known.
pub(super) fn is_whole(text: &str) -> bool {
    !text.contains([GAP, DECODED, FETCHED])
}

/// The name of a program without its folder.
pub(super) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Bash<'_> {
    /// What a word may be.
    pub(super) fn words(&self, node: Node<'_>, depth: usize) -> Words {
        if depth > MAX_DEPTH {
            return Words::unknown();
        }
        match node.kind() {
            "word" | "variable_name" | "number" | "regex" | "extglob_pattern" if node.named_child_count() == 0 => {
                Words::literal(&unescaped(self.text(node)))
            }
            "raw_string" => Words::literal(self.text(node).trim_start_matches('\'').trim_end_matches('\'')),
            "ansi_c_string" => {
                let text = self.text(node);
                let inner = text.strip_prefix("$'").and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
                Words::literal(&ansi(inner))
            }
            "string" | "translated_string" => {
                // The parser leaves out white space between the parts.
                let mut words = Words::empty();
                let mut at = node.start_byte();
                for child in children(node) {
                    if let Some(between) = self.code.get(at..child.start_byte())
                        && !between.is_empty()
                    {
                        words = words.then(&Words::literal(between));
                    }
                    at = child.end_byte();
                    match child.kind() {
                        "\"" => {}
                        "string_content" => words = words.then(&Words::literal(&unquoted(self.text(child)))),
                        _ => words = words.then(&self.words(child, depth + 1)),
                    }
                }
                words
            }
            "concatenation" | "command_name" => {
                let mut words = Words::empty();
                for child in children(node) {
                    words = words.then(&self.words(child, depth + 1));
                }
                words
            }
            "simple_expansion" => self.variable_words(self.text(node).trim_start_matches('$')),
            "expansion" => {
                let text = self.text(node);
                let name = text.strip_prefix("${").and_then(|text| text.strip_suffix('}')).unwrap_or_default();
                if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                    return self.variable_words(name);
                }
                match name.split_once([':', '-', '=', '[']) {
                    Some((name, _)) => {
                        self.arrays.get(name).and_then(|words| words.first().cloned()).unwrap_or_else(Words::unknown)
                    }
                    None => Words::unknown(),
                }
            }
            "command_substitution" => {
                if let Some(known) = self.substituted.borrow().get(&node.id()) {
                    return known.clone();
                }
                let words = self.substituted(node, depth);
                self.substituted.borrow_mut().insert(node.id(), words.clone());
                words
            }
            "process_substitution" => {
                let (is_fetched, is_decoded) = self.sources(node, depth);
                Words::text(mark(is_fetched, is_decoded))
            }
            "brace_expression" => Words::unknown(),
            _ => {
                if node.is_named() && node.named_child_count() == 0 {
                    Words::literal(self.text(node))
                } else {
                    Words::unknown()
                }
            }
        }
    }

    fn variable_words(&self, name: &str) -> Words {
        match name {
            "HOME" => Words::text("~"),
            "IFS" => Words::text(" "),
            _ => self.variables.get(name).cloned().unwrap_or_else(Words::unknown),
        }
    }

    /// What `$(…)` may be.
    fn substituted(&self, node: Node<'_>, depth: usize) -> Words {
        let parts: Vec<Node<'_>> = children(node).into_iter().filter(Node::is_named).collect();
        if let [command] = parts.as_slice()
            && command.kind() == "command"
            && depth < MAX_DEPTH
        {
            if let Some(text) = self.echoed(*command) {
                return Words::text(text.trim_end_matches('\n'));
            }
            // The path of a program stands for the program.
            let arguments = self.arguments(*command);
            let name = command.child_by_field_name("name").map(|name| self.text(name)).unwrap_or_default();
            let last = arguments.last().and_then(Words::whole);
            if let ("which" | "command", Some(program)) = (name, last) {
                return Words::text(program);
            }
        }
        let (is_fetched, is_decoded) = self.sources(node, depth);
        Words::text(mark(is_fetched, is_decoded))
    }

    /// What a command prints, if it only prints.
    pub(super) fn echoed(&self, command: Node<'_>) -> Option<String> {
        let name = command.child_by_field_name("name").map(|name| self.words(name, 0))?;
        let arguments = self.arguments(command);
        let name = name.whole().map(base)?;
        let texts: Vec<String> = arguments.iter().map(Words::any).collect();
        let (options, texts): (Vec<String>, Vec<String>) = match name {
            "echo" => texts.into_iter().partition(|text| matches!(text.as_str(), "-n" | "-e" | "-ne" | "-en")),
            "printf" => {
                let (format, values) = texts.split_first()?;
                let mut values = values.iter();
                let mut text = String::new();
                let mut letters = format.chars();
                while let Some(letter) = letters.next() {
                    match letter {
                        '%' => match letters.next() {
                            Some('s' | 'b' | 'd') => text.push_str(values.next().map_or("", String::as_str)),
                            Some('%') => text.push('%'),
                            _ => text.push(GAP),
                        },
                        _ => text.push(letter),
                    }
                }
                return Some(ansi(&text));
            }
            _ => return None,
        };
        let text = texts.join(" ");
        Some(if options.iter().any(|option| option.contains('e')) { ansi(&text) } else { text })
    }

    /// A here-document, with marks for what is expanded.
    pub(super) fn heredoc(&self, body: Node<'_>) -> String {
        let (mut text, mut at) = (String::new(), body.start_byte());
        for child in children(body) {
            if child.kind() == "heredoc_content" {
                continue;
            }
            text.push_str(self.code.get(at..child.start_byte()).unwrap_or_default());
            text.push_str(&self.words(child, 0).any());
            at = child.end_byte();
        }
        text.push_str(self.code.get(at..body.end_byte()).unwrap_or_default());
        text
    }

    pub(super) fn arguments(&self, command: Node<'_>) -> Vec<Words> {
        let mut cursor = command.walk();
        let nodes: Vec<Node<'_>> = command.children_by_field_name("argument", &mut cursor).collect();
        nodes.into_iter().map(|node| self.words(node, 0)).collect()
    }
}

fn mark(is_fetched: bool, is_decoded: bool) -> String {
    match (is_fetched, is_decoded) {
        (true, _) => FETCHED,
        (false, true) => DECODED,
        (false, false) => GAP,
    }
    .to_string()
}

/// A word without its backslashes.
fn unescaped(text: &str) -> String {
    let mut letters = text.chars();
    let mut plain = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\n') | None => {}
                Some(next) => plain.push(next),
            },
            _ => plain.push(letter),
        }
    }
    plain
}

/// The text between double quotes, without its backslashes.
fn unquoted(text: &str) -> String {
    let mut letters = text.chars().peekable();
    let mut plain = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some('\\' | '"' | '$' | '`')) => plain.extend(letters.next()),
            ('\\', Some('\n')) => drop(letters.next()),
            _ => plain.push(letter),
        }
    }
    plain
}

/// A text with escape sequences.
pub(super) fn ansi(text: &str) -> String {
    let mut letters = text.chars().peekable();
    let mut plain = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        let (radix, most) = match letters.peek() {
            Some('x') => (16, 2),
            Some('u') => (16, 4),
            Some('U') => (16, 8),
            Some('0'..='7') => (8, 3),
            _ => {
                match letters.next() {
                    Some('n') => plain.push('\n'),
                    Some('t') => plain.push('\t'),
                    Some('r') => plain.push('\r'),
                    Some('e' | 'E') => plain.push('\u{1b}'),
                    Some(other) => plain.push(other),
                    None => plain.push('\\'),
                }
                continue;
            }
        };
        if radix == 16 {
            letters.next();
        }
        let mut number = 0;
        for _ in 0..most {
            let Some(digit) = letters.peek().and_then(|one| one.to_digit(radix)) else { break };
            number = number * radix + digit;
            letters.next();
        }
        plain.extend(char::from_u32(number).filter(|one| *one != '\0'));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read() {
        assert_eq!(ansi(r"\x65\166al\n"), "eval\n");
        assert_eq!(unescaped(r"e\val"), "eval");
        assert_eq!(unquoted(r#"\"a\b\$"#), r#""a\b$"#);
    }
}
