//! Patterns over `server.tool`, and the order by specificity.

use crate::names::{Spellings, ToolNames, fold};
use coracle_types::{Decision, Tool};
use std::fmt;
use std::str::FromStr;

/// The maximum length of a pattern, enough for the longest tool name with every character escaped.
const MAX_PATTERN_BYTES: usize = 4 << 10;

/// The tools that a rule matches: `server.tool`, where `*` matches any text, including none. `*` alone matches every
/// tool.
///
/// Server names have no dot, so the first dot ends the server; later dots belong to the tool. `\*` and `\\` match a
/// literal star and backslash.
///
/// A name may be written as on the wire or as Coracle's identifier, in any case. See [`Pattern::matches`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: String,
    server: Part,
    tool: Part,
}

/// One side of the dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Part {
    /// The pieces as written.
    written: Vec<Piece>,
    /// The pieces without case and invisible characters.
    folded: Vec<Piece>,
    /// The folded pieces with `_` for all punctuation, as in Coracle's identifiers. Used to compare patterns.
    plain: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Piece {
    Char(char),
    Any,
}

impl Piece {
    fn char(self) -> Option<char> {
        match self {
            Self::Char(c) => Some(c),
            Self::Any => None,
        }
    }
}

/// Why a string is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern has no dot.
    #[error("{text:?} does not name a tool")]
    NoTool {
        /// The pattern.
        text: String,
    },
    /// One side of the dot is empty.
    #[error("{text:?} has nothing before or after its first dot")]
    Empty {
        /// The pattern.
        text: String,
    },
    /// A backslash before something other than a star or a backslash.
    #[error("{text:?} has a backslash that is not followed by '*' or another backslash")]
    Escape {
        /// The pattern.
        text: String,
    },
    /// The pattern is too long.
    #[error("the pattern is {bytes} bytes long: the maximum is {MAX_PATTERN_BYTES}")]
    TooLong {
        /// Length in bytes.
        bytes: usize,
    },
}

impl PatternError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoTool { .. } => "pattern_no_tool",
            Self::Empty { .. } => "pattern_empty",
            Self::Escape { .. } => "pattern_escape",
            Self::TooLong { .. } => "pattern_too_long",
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoTool { text } => {
                Some(format!("use \"{text}.*\" for all tools of a server, or \"*\" for all tools"))
            }
            Self::Empty { .. } => Some("write server.tool, with * for any".to_owned()),
            Self::Escape { .. } => Some(r"write \\ for a backslash and \* for a star".to_owned()),
            Self::TooLong { .. } => Some("use * for part of the name".to_owned()),
        }
    }
}

impl Pattern {
    /// The pattern that matches this tool and no other.
    pub fn exactly(tool: &Tool) -> Self {
        let server = tool.server.as_str();
        let mut text = format!("{server}.");
        for c in tool.name.chars() {
            if matches!(c, '*' | '\\') {
                text.push('\\');
            }
            text.push(c);
        }
        Self { text, server: Part::new(literal(server)), tool: Part::new(literal(&tool.name)) }
    }

    /// The pieces of the server and of the tool, each as written and folded.
    pub(crate) fn parts(&self) -> [(&[Piece], &[Piece]); 2] {
        [&self.server, &self.tool].map(|part| (part.written.as_slice(), part.folded.as_slice()))
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How a rule with this pattern and this decision matches a tool, or `None` if it does not.
    ///
    /// A rule matches any of the tool's names, and names that differ from them only in case or invisible characters. If
    /// the server has another tool with the same folded name, a rule allows only the exact spelling, while a rule that
    /// restricts applies to both.
    pub fn matches(&self, names: &ToolNames, decision: Decision) -> Option<Match> {
        let (server, tool) = (self.server.matches(&names.server)?, self.tool.matches(&names.tool)?);
        let found = server.max(tool);
        let is_loose_allow = |part: Match, names: &Spellings| part == Match::Folded && !names.is_unique();
        let widens = is_loose_allow(server, &names.server) || is_loose_allow(tool, &names.tool);
        (decision != Decision::Allow || !widens).then_some(found)
    }

    /// Whether the pattern matches tools of a server with this name.
    pub fn matches_server(&self, server: &Spellings) -> bool {
        self.server.matches(server).is_some()
    }

    /// How the pattern matches the name of a server.
    pub(crate) fn matches_server_as(&self, server: &Spellings) -> Option<Match> {
        self.server.matches(server)
    }

    /// Whether the pattern matches every tool of every server.
    pub(crate) fn matches_all(&self) -> bool {
        [&self.server, &self.tool].into_iter().all(|part| part.written == [Piece::Any])
    }

    /// Whether the pattern names one server, without a star.
    pub fn names_one_server(&self) -> bool {
        !self.server.written.contains(&Piece::Any)
    }

    /// Whether the pattern names one tool, without a star.
    pub fn names_one_tool(&self) -> bool {
        self.names_one_server() && !self.tool.written.contains(&Piece::Any)
    }

    /// Whether the other pattern matches everything that this one does, and more.
    pub fn is_more_specific_than(&self, other: &Self) -> bool {
        self.is_within(other) && !other.is_within(self)
    }

    /// Whether both patterns match the same tools, however they are spelled.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.is_within(other) && other.is_within(self)
    }

    /// Whether the other pattern matches everything that this one does.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let covers = |other: &Part, own: &Part| covers(&other.plain, own.plain.iter().copied());
        covers(&other.server, &self.server) && covers(&other.tool, &self.tool)
    }
}

/// How a pattern matches a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// The exact spelling matches.
    Exact,
    /// The name matches without case and invisible characters.
    Folded,
}

impl Part {
    fn new(written: Vec<Piece>) -> Self {
        let mut folded = Vec::with_capacity(written.len());
        for run in written.split_inclusive(|piece| *piece == Piece::Any) {
            let text: String = run.iter().filter_map(|piece| piece.char()).collect();
            folded.extend(fold(&text).chars().map(Piece::Char));
            if run.last() == Some(&Piece::Any) && folded.last() != Some(&Piece::Any) {
                folded.push(Piece::Any);
            }
        }
        let plain = folded.iter().map(|piece| match piece {
            Piece::Char(c) if !c.is_alphanumeric() => Piece::Char('_'),
            piece => *piece,
        });
        Self { written, plain: plain.collect(), folded }
    }

    fn matches(&self, names: &Spellings) -> Option<Match> {
        let is_any = |pattern: &[Piece], names: &[String]| {
            names.iter().any(|name| covers(pattern, name.chars().map(Piece::Char)))
        };
        if is_any(&self.written, names.exact()) {
            return Some(Match::Exact);
        }
        is_any(&self.folded, names.folded()).then_some(Match::Folded)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(PatternError::TooLong { bytes: text.len() });
        }
        let owned = || text.to_owned();
        let (server, tool) = match text.split_once('.') {
            Some(parts) => parts,
            None if text == "*" => ("*", "*"),
            None => return Err(PatternError::NoTool { text: owned() }),
        };
        if server.is_empty() || tool.is_empty() {
            return Err(PatternError::Empty { text: owned() });
        }
        let part = |part: &str| pieces(part).map(Part::new).ok_or_else(|| PatternError::Escape { text: owned() });
        Ok(Self { server: part(server)?, tool: part(tool)?, text: owned() })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn literal(text: &str) -> Vec<Piece> {
    text.chars().map(Piece::Char).collect()
}

fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        pieces.push(match c {
            '*' if pieces.last() == Some(&Piece::Any) => continue,
            '*' => Piece::Any,
            '\\' => Piece::Char(rest.next().filter(|c| matches!(c, '*' | '\\'))?),
            c => Piece::Char(c),
        });
    }
    Some(pieces)
}

/// Whether `pattern` matches every text that `pieces` matches.
///
/// Without stars in `pieces`, this is ordinary matching. A star in `pieces` stands for any text, so only a star covers
/// it, and a star that does also covers any replacement.
fn covers(pattern: &[Piece], pieces: impl Iterator<Item = Piece> + Clone) -> bool {
    let (mut at, mut rest) = (0, pieces);
    // Where to continue if the text after the last star does not match: that star takes one more piece.
    let mut retry = None;
    loop {
        let mut ahead = rest.clone();
        let Some(piece) = ahead.next() else { break };
        match pattern.get(at) {
            Some(Piece::Any) => {
                at += 1;
                retry = Some((at, rest.clone()));
            }
            Some(expected) if *expected == piece => {
                at += 1;
                rest = ahead;
            }
            _ => {
                let Some((after, taken)) = &mut retry else { return false };
                taken.next();
                at = *after;
                rest = taken.clone();
            }
        }
    }
    pattern[at..].iter().all(|piece| *piece == Piece::Any)
}
