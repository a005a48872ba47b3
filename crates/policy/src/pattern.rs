//! Patterns over `server.tool`, and when one is more specific than another.

use crate::names::{Spellings, ToolNames, fold};
use coracle_types::{Decision, Tool};
use std::fmt;
use std::str::FromStr;

/// Longest pattern: room for the longest name of a tool with each character escaped.
const MAX_PATTERN_BYTES: usize = 4 << 10;

/// Which tools a rule is about: `server.tool`, where `*` stands for any text, also none. `*` alone is every tool.
///
/// A name of a server has no dot, so the first dot ends it; dots after that belong to the tool. `\*` and `\\` are a star
/// and a backslash that a name really has.
///
/// A name may be written as the server spells it or as Coracle shows it, in any case. See [`Pattern::matches`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: String,
    server: Part,
    tool: Part,
}

/// One side of the dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Part {
    /// As it was written.
    written: Vec<Piece>,
    /// Without case and invisible characters.
    folded: Vec<Piece>,
    /// The same with `_` for all punctuation, as in the names that Coracle shows: to compare patterns by.
    plain: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Piece {
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

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// There is no dot in it.
    #[error("{text:?} names no tool")]
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
    #[error("{text:?} has a backslash that stands before neither '*' nor another backslash")]
    Escape {
        /// The pattern.
        text: String,
    },
    /// It is too long.
    #[error("a pattern of {bytes} bytes is too long: at most {MAX_PATTERN_BYTES} are taken")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
}

impl PatternError {
    /// The stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoTool { .. } => "pattern_no_tool",
            Self::Empty { .. } => "pattern_empty",
            Self::Escape { .. } => "pattern_escape",
            Self::TooLong { .. } => "pattern_too_long",
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoTool { text } => Some(format!("all tools of a server are \"{text}.*\", all tools are \"*\"")),
            Self::Empty { .. } => Some("write server.tool, with * for any".to_owned()),
            Self::Escape { .. } => Some(r"write \\ for a backslash and \* for a star".to_owned()),
            Self::TooLong { .. } => Some("use * for a part of the name".to_owned()),
        }
    }
}

impl Pattern {
    /// The pattern that is about this tool and no other.
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

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How a rule of this pattern that makes this decision matches a tool; `None` if it does not.
    ///
    /// A rule matches whichever of the tool's names it is written with, and also a name that differs from these only in
    /// case or invisible characters. If the server has another tool spelled alike, only the exact spelling allows a tool,
    /// while a rule that restricts one restricts both.
    pub fn matches(&self, names: &ToolNames, decision: Decision) -> Option<Match> {
        let (server, tool) = (self.server.matches(&names.server)?, self.tool.matches(&names.tool)?);
        let found = server.max(tool);
        let is_loose_allow = |part: Match, names: &Spellings| part == Match::Folded && !names.is_unique();
        let widens = is_loose_allow(server, &names.server) || is_loose_allow(tool, &names.tool);
        (decision != Decision::Allow || !widens).then_some(found)
    }

    /// Whether it is about tools of a server with this name.
    pub fn matches_server(&self, server: &Spellings) -> bool {
        self.server.matches(server).is_some()
    }

    /// Whether it names one server, and not several by a star.
    pub fn names_one_server(&self) -> bool {
        !self.server.written.contains(&Piece::Any)
    }

    /// Whether the other one is about all that this one is about, and more.
    pub fn is_more_specific_than(&self, other: &Self) -> bool {
        self.is_within(other) && !other.is_within(self)
    }

    /// Whether both are about the same tools, however they are spelled.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.is_within(other) && other.is_within(self)
    }

    fn is_within(&self, other: &Self) -> bool {
        let covers = |other: &Part, own: &Part| covers(&other.plain, own.plain.iter().copied());
        covers(&other.server, &self.server) && covers(&other.tool, &self.tool)
    }
}

/// How a pattern matches a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// As it is spelled.
    Exact,
    /// After case and invisible characters are taken away.
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

/// Whether `pattern` is about every text that `pieces` is about.
///
/// A text without stars is the simple case. A star in `pieces` stands for any text: only a star covers it, and one that
/// does covers whatever is put in its place.
fn covers(pattern: &[Piece], pieces: impl Iterator<Item = Piece> + Clone) -> bool {
    let (mut at, mut rest) = (0, pieces);
    // Where to go on when what follows the last star does not fit: that star takes one piece more.
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
