//! Patterns over `server.tool`, and when one is more specific than another.

use coracle_types::Tool;
use std::fmt;
use std::str::FromStr;

/// Longest pattern: room for the longest name of a tool with each character escaped.
const MAX_PATTERN_BYTES: usize = 4 << 10;

/// Which tools a rule is about: `server.tool`, where `*` stands for any text, also none. `*` alone is every tool.
///
/// A name of a server has no dot, so the first dot ends it; dots after that belong to the tool. `\*` and `\\` are a star
/// and a backslash that a name really has. Letters count as they are written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: String,
    server: Vec<Piece>,
    tool: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Piece {
    Char(char),
    Any,
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
        Self { text, server: literal(server), tool: literal(&tool.name) }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is about this tool.
    pub fn matches(&self, tool: &Tool) -> bool {
        covers(&self.server, &literal(tool.server.as_str())) && covers(&self.tool, &literal(&tool.name))
    }

    /// Whether the other one is about all that this one is about, and more.
    pub fn is_more_specific_than(&self, other: &Self) -> bool {
        self.is_within(other) && !other.is_within(self)
    }

    fn is_within(&self, other: &Self) -> bool {
        covers(&other.server, &self.server) && covers(&other.tool, &self.tool)
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
        let pieces = |part: &str| pieces(part).ok_or_else(|| PatternError::Escape { text: owned() });
        Ok(Self { server: pieces(server)?, tool: pieces(tool)?, text: owned() })
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
fn covers(pattern: &[Piece], pieces: &[Piece]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where to go on when what follows the last star does not fit: that star takes one piece more.
    let mut retry: Option<(usize, usize)> = None;
    while seen < pieces.len() {
        match pattern.get(at) {
            Some(Piece::Any) => {
                retry = Some((at + 1, seen));
                at += 1;
            }
            Some(piece @ Piece::Char(_)) if *piece == pieces[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match retry {
                Some((after, taken)) => {
                    retry = Some((after, taken + 1));
                    at = after;
                    seen = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|piece| *piece == Piece::Any)
}
