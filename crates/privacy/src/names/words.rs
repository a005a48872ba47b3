//! The tokens of a piece of text without whitespace, with what the rules need to know of each.

use super::tokenizer::Token;
use super::vocabulary::{LONG_COUNTRIES, Traits};

/// How a word is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `Anna`, `O'Brien`, `Anne-Marie`.
    Title,
    /// `ANNA`.
    Upper,
    /// `A` or `A.`.
    Initial,
    /// `anna`.
    Lower,
    /// `12`, `12a`, `394-13`.
    Number,
    /// `getName`, `a@example.com`, `x_1`.
    Code,
    /// Anything else.
    Sign,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) form: Form,
    pub(super) traits: Traits,
    /// Whether a line begins here.
    pub(super) begins_line: bool,
    /// Whether an empty line, or the text, precedes it.
    pub(super) begins_paragraph: bool,
    /// Its place among all tokens.
    pub(super) token: usize,
}

impl Word<'_> {
    pub(super) fn is(&self, traits: Traits) -> bool {
        self.traits.any(traits)
    }

    /// Whether it is written as names are.
    pub(super) fn is_capitalised(&self) -> bool {
        matches!(self.form, Form::Title | Form::Upper | Form::Initial)
    }

    pub(super) fn is_number(&self) -> bool {
        self.form == Form::Number
    }

    /// The number of digits that it begins with.
    pub(super) fn digits(&self) -> usize {
        self.text.bytes().take_while(u8::is_ascii_digit).count()
    }
}

/// The words of some tokens.
pub(super) fn of<'a>(text: &'a str, tokens: &[Token]) -> Vec<Word<'a>> {
    let mut words = Vec::with_capacity(tokens.len());
    let mut lines = 2;
    for (at, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        if token.is_space {
            lines += word.bytes().filter(|byte| *byte == b'\n').count();
            continue;
        }
        words.push(Word {
            text: word,
            start: token.start,
            end: token.end,
            form: form(word),
            traits: Traits::of(word),
            begins_line: lines > 0,
            begins_paragraph: lines > 1,
            token: at,
        });
        lines = 0;
    }
    words
}

fn form(word: &str) -> Form {
    let mut letters = word.chars();
    let Some(first) = letters.next() else { return Form::Sign };
    if first.is_ascii_digit() {
        let mut rest =
            word.trim_start_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, '-' | '/')).chars();
        return match (rest.next(), rest.next()) {
            (None, _) => Form::Number,
            (Some(letter), None) if letter.is_ascii_alphabetic() || letter == '.' => Form::Number,
            _ => Form::Code,
        };
    }
    if !first.is_alphabetic() {
        return if word.chars().any(char::is_alphanumeric) { Form::Code } else { Form::Sign };
    }
    let (mut uppers, mut lowers, mut others, mut inner) = (0, 0, 0, 0);
    let mut after_lower = false;
    for letter in word.chars() {
        if letter.is_uppercase() {
            uppers += 1;
            inner += usize::from(after_lower);
        } else if letter.is_alphabetic() || ('\u{300}'..'\u{370}').contains(&letter) {
            lowers += 1;
        } else if !matches!(letter, '.' | '-' | '\'' | '’' | '\u{200d}') {
            others += 1;
        }
        after_lower = letter.is_lowercase();
    }
    let is_scottish =
        ["Mc", "Mac", "De", "Di", "La", "Le", "Van", "Fitz", "Des", "Du"].iter().any(|start| word.starts_with(start));
    if others > 0 || inner > usize::from(is_scottish) || word.trim_end_matches('.').contains('.') && uppers < 2 {
        Form::Code
    } else if first.is_uppercase() && uppers == 1 && lowers == 0 {
        Form::Initial
    } else if lowers == 0 {
        Form::Upper
    } else if first.is_uppercase() {
        Form::Title
    } else if uppers == 0 {
        Form::Lower
    } else {
        Form::Code
    }
}

/// Where the value of a field begins whose label is at a place: after a colon, which may stand between quotes.
pub(super) fn value(words: &[Word], label: usize) -> Option<usize> {
    let is_quote = |at: usize| words.get(at).is_some_and(|word| matches!(word.text, "\"" | "'"));
    let colon = label + 1 + usize::from(is_quote(label + 1));
    let is_colon = words.get(colon).is_some_and(|word| matches!(word.text, ":" | "="));
    let start = colon + 1 + usize::from(is_quote(colon + 1));
    (is_colon && start < words.len()).then_some(start)
}

/// The number of words of a country that begins at a place.
pub(super) fn country(words: &[Word]) -> usize {
    let Some(first) = words.first() else { return 0 };
    if first.is(Traits::COUNTRY) && first.is_capitalised() {
        return 1;
    }
    if !first.is_capitalised() {
        return 0;
    }
    let is_here = |name: &&&[&str]| {
        name.len() <= words.len() && name.iter().zip(words).all(|(name, word)| word.text.eq_ignore_ascii_case(name))
    };
    LONG_COUNTRIES.iter().find(is_here).map_or(0, |name| name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_forms() {
        let forms = [
            ("Anna", Form::Title),
            ("O'Brien", Form::Title),
            ("McDonald", Form::Title),
            ("Anne-Marie", Form::Title),
            ("ANNA", Form::Upper),
            ("A", Form::Initial),
            ("A.", Form::Initial),
            ("anna", Form::Lower),
            ("12", Form::Number),
            ("12a", Form::Number),
            ("394-13", Form::Number),
            ("JavaScript", Form::Code),
            ("getName", Form::Code),
            ("x_1", Form::Code),
            ("a@example.com", Form::Code),
            ("—", Form::Sign),
        ];
        for (word, expected) in forms {
            assert_eq!(form(word), expected, "{word}");
        }
    }
}
