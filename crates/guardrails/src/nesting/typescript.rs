use super::Levels;

/// Words after which an expression or a type goes on, so that the end of the line separates nothing.
const GOES_ON: &[&str] = &[
    "abstract",
    "as",
    "async",
    "await",
    "case",
    "const",
    "default",
    "delete",
    "do",
    "else",
    "export",
    "extends",
    "for",
    "if",
    "in",
    "infer",
    "instanceof",
    "keyof",
    "let",
    "new",
    "of",
    "readonly",
    "return",
    "satisfies",
    "throw",
    "typeof",
    "unique",
    "var",
    "void",
    "while",
    "with",
    "yield",
    "is",
    "asserts",
];

/// Words that open a level that no separator ends: `if (a) b; else if (c) d; else …`
const LASTING: &[&str] = &["do", "else", "for", "if", "while", "with"];

/// Words between two values or types.
const BINARY: &[&str] = &["as", "extends", "in", "infer", "instanceof", "is", "of", "satisfies"];

/// What the last token was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A value ends here: a slash divides.
    Value,
    /// Something that a value follows: a slash begins a regular expression.
    Operator,
    /// `)` or `}`, after which a slash can be both.
    Bracket,
}

/// An upper bound of the depth of the syntax tree.
///
/// Where it is not clear without a parser whether a slash divides, all tokens of the code count, as if nothing closed
/// them.
pub(crate) fn typescript(code: &str) -> usize {
    Scanner { code: code.as_bytes(), text: code, at: 0, levels: Levels::new(), templates: Vec::new() }
        .run()
        .unwrap_or_else(|| every_token(code))
}

/// The number of bytes that could open a level.
fn every_token(code: &str) -> usize {
    let is_opening = |byte: &u8| {
        byte.is_ascii_punctuation() && !matches!(byte, b')' | b']' | b'}' | b',' | b';' | b'_' | b'"' | b'\'')
    };
    let words = code.split(|one: char| !one.is_alphanumeric()).filter(|word| GOES_ON.contains(word)).count();
    code.bytes().filter(|byte| is_opening(byte)).count() + words
}

struct Scanner<'a> {
    code: &'a [u8],
    text: &'a str,
    at: usize,
    levels: Levels,
    /// Open brackets within each template that is open.
    templates: Vec<usize>,
}

impl Scanner<'_> {
    fn run(mut self) -> Option<usize> {
        let mut last = Last::Operator;
        let (mut was_word, mut is_new_line) = (false, false);
        while let Some(&byte) = self.code.get(self.at) {
            let next = self.code.get(self.at + 1).copied().unwrap_or_default();
            let begin = self.at;
            match byte {
                b'\n' => {
                    is_new_line = true;
                    self.at += 1;
                    continue;
                }
                b' ' | b'\t' | b'\r' => {
                    self.at += 1;
                    continue;
                }
                b'/' if next == b'/' => {
                    self.at = self.find(b"\n", begin);
                    continue;
                }
                b'/' if next == b'*' => {
                    self.at = (self.find(b"*/", begin + 2) + 2).min(self.code.len());
                    continue;
                }
                _ => {}
            }
            let is_word = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'#' | b'\\') || byte >= 0x80;
            let ends_line = std::mem::take(&mut is_new_line);
            match byte {
                _ if is_word => {
                    let end = self.code[begin..]
                        .iter()
                        .position(|byte| {
                            !(byte.is_ascii_alphanumeric()
                                || matches!(byte, b'_' | b'$' | b'#' | b'\\')
                                || *byte >= 0x80)
                        })
                        .map_or(self.code.len(), |length| begin + length);
                    self.at = end;
                    let word = self.text.get(begin..end).unwrap_or_default();
                    let goes_on = GOES_ON.contains(&word);
                    // Two values in different lines: a semicolon is missing.
                    if ends_line && last != Last::Operator && !BINARY.contains(&word) {
                        self.levels.separator();
                    }
                    if LASTING.contains(&word) {
                        self.levels.lasting();
                    } else if goes_on {
                        self.levels.token();
                    }
                    last = if goes_on { Last::Operator } else { Last::Value };
                    was_word = true;
                    continue;
                }
                b'"' | b'\'' => {
                    self.at = self.string(byte);
                    last = Last::Value;
                }
                b'`' => {
                    self.at += 1;
                    self.levels.token();
                    self.template();
                    last =
                        if self.text.as_bytes().get(self.at - 1) == Some(&b'{') { Last::Operator } else { Last::Value };
                }
                b'(' | b'[' | b'{' => {
                    if byte == b'{'
                        && let Some(open) = self.templates.last_mut()
                    {
                        *open += 1;
                    }
                    self.levels.opening();
                    self.at += 1;
                    last = Last::Operator;
                }
                b')' | b']' | b'}' => {
                    self.at += 1;
                    if byte == b'}' && self.templates.last() == Some(&0) {
                        self.templates.pop();
                        self.levels.closing();
                        self.template();
                        last = if self.code.get(self.at - 1) == Some(&b'{') { Last::Operator } else { Last::Value };
                    } else {
                        if byte == b'}'
                            && let Some(open) = self.templates.last_mut()
                        {
                            *open -= 1;
                        }
                        self.levels.closing();
                        last = if byte == b']' { Last::Value } else { Last::Bracket };
                    }
                }
                b';' | b',' => {
                    self.levels.separator();
                    self.at += 1;
                    last = Last::Operator;
                }
                b'/' => match last {
                    Last::Operator => {
                        self.at = self.regex()?;
                        last = Last::Value;
                    }
                    Last::Value => {
                        self.levels.token();
                        self.at += 1;
                        last = Last::Operator;
                    }
                    Last::Bracket => {
                        let line = self.find(b"\n", begin + 1);
                        if self.code[begin + 1..line].contains(&b'/') {
                            return None;
                        }
                        self.levels.token();
                        self.at += 1;
                        last = Last::Operator;
                    }
                },
                _ => {
                    self.levels.token();
                    self.at += if (byte, next) == (b'=', b'>') { 2 } else { 1 };
                    // After `a++`, a slash divides; after `+ +`, it does not.
                    if (matches!((byte, next), (b'+', b'+') | (b'-', b'-')) && was_word) {
                        self.at += 1;
                        last = Last::Bracket;
                    } else {
                        last = Last::Operator;
                    }
                }
            }
            was_word = false;
        }
        Some(self.levels.most)
    }

    fn find(&self, what: &[u8], from: usize) -> usize {
        let rest = self.code.get(from..).unwrap_or_default();
        rest.windows(what.len()).position(|window| window == what).map_or(self.code.len(), |index| from + index)
    }

    /// The end of a string that begins here.
    fn string(&self, quote: u8) -> usize {
        let mut at = self.at + 1;
        while let Some(&byte) = self.code.get(at) {
            match byte {
                b'\\' => at += 2,
                b'\n' => return at,
                _ if byte == quote => return at + 1,
                _ => at += 1,
            }
        }
        self.code.len()
    }

    /// Goes to the end of a template, or to its next value.
    fn template(&mut self) {
        while let Some(&byte) = self.code.get(self.at) {
            match byte {
                b'\\' => self.at += 2,
                b'`' => {
                    self.at += 1;
                    return;
                }
                b'$' if self.code.get(self.at + 1) == Some(&b'{') => {
                    self.at += 2;
                    self.templates.push(0);
                    self.levels.opening();
                    return;
                }
                _ => self.at += 1,
            }
        }
        self.at = self.code.len();
    }

    /// The end of a regular expression that begins here. `None` if there is none.
    fn regex(&self) -> Option<usize> {
        let (mut at, mut is_class) = (self.at + 1, false);
        while let Some(&byte) = self.code.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\n' => return None,
                b'[' => is_class = true,
                b']' => is_class = false,
                b'/' if !is_class => return Some(at + 1),
                _ => {}
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::typescript;

    #[test]
    fn closed_brackets_do_not_count() {
        assert!(typescript(&"f(1);\n".repeat(1_000)) < 5);
        assert!(typescript(&"const x = g(a.b, [1, 2])\n".repeat(1_000)) < 15);
        assert!(typescript(&"const t = `${a}${b}`;\n".repeat(1_000)) < 15);
        assert!(typescript(&"x = a / b;\nconst r = /[/(]/.test(s);\n".repeat(1_000)) < 15);
    }

    #[test]
    fn closers_that_are_no_code_do_not_close() {
        for piece in ["( /*)*/", "(\")\"+", "(/)/ +", "`${(`)`", "if (x) /)/; (", "a++ /)/ ("] {
            let code = piece.repeat(1_000);
            assert!(typescript(&code) >= 1_000, "{piece}: {}", typescript(&code));
        }
        for piece in ["!", "a=>", "a?b:", "if(a)b;else ", "new ", "a.b", "-a", "if (a)\n", "new\n", "a = \n"] {
            let code = piece.repeat(1_000);
            assert!(typescript(&code) >= 900, "{piece}: {}", typescript(&code));
        }
    }
}
