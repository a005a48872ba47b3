//! Text from a server, cleaned for display: no hidden characters, and limited in length.

/// The maximum length of a description in a generated file or a listing, in characters.
pub(crate) const DESCRIPTION_CHARS: usize = 4_000;
/// The maximum length of the description of a parameter or field.
pub(crate) const PARAMETER_CHARS: usize = 600;
/// The maximum length of a summary, which is one line.
pub(crate) const SUMMARY_CHARS: usize = 120;

/// The mark at the end of text that was cut.
const CUT: char = '…';

/// Keeps visible characters and line feeds, at most `cap` characters.
///
/// Removes control characters, and characters that change the direction of text or have no width, because with them
/// people read something else than what is written. Joiners stay, because some scripts need them.
pub(crate) fn clean(text: &str, cap: usize) -> String {
    // Fast path: most text is plain.
    if text.len() <= cap && text.bytes().all(|byte| byte == b'\n' || byte == b' ' || byte.is_ascii_graphic()) {
        return text.trim().to_owned();
    }
    let mut shown = String::new();
    let mut count = 0;
    let mut previous = ' ';
    for raw in text.chars() {
        let is_second_half = raw == '\n' && previous == '\r';
        previous = raw;
        if is_second_half {
            continue;
        }
        let letter = match raw {
            '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}' => '\n',
            '\t' => ' ',
            other => other,
        };
        if letter != '\n' && is_hidden(letter) {
            continue;
        }
        if count == cap {
            shown.push(CUT);
            break;
        }
        count += 1;
        shown.push(letter);
    }
    shown.trim().to_owned()
}

/// Whether a character must not be in text for people.
pub(crate) fn is_hidden(letter: char) -> bool {
    if letter.is_ascii() {
        return letter.is_ascii_control();
    }
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..)
}

/// A string literal on one line. Only letters, digits and plain punctuation are left as they are; `escaped` writes
/// other characters by their code point, in the syntax of the language.
pub(crate) fn quoted(text: &str, escaped: impl Fn(u32) -> String) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            ' ' | CUT => out.push(letter),
            plain if plain.is_ascii_graphic() => out.push(plain),
            visible if visible.is_alphanumeric() && !is_hidden(visible) => out.push(visible),
            other => out.push_str(&escaped(u32::from(other))),
        }
    }
    out.push('"');
    out
}

/// Lines without superfluous spaces, at most `cap` characters.
pub(crate) fn short(text: &str, cap: usize) -> String {
    let whole = clean(text, DESCRIPTION_CHARS);
    let lines = whole.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let text = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let Some((end, _)) = text.char_indices().nth(cap) else { return text };
    let head = &text[..end];
    let end = head.rfind(['\n', ' ']).filter(|end| *end > 0).unwrap_or(head.len());
    format!("{}{CUT}", head[..end].trim_end())
}

/// The first paragraph as one line of at most `cap` characters.
pub(crate) fn one_line(text: &str, cap: usize) -> String {
    let whole = clean(text, cap.saturating_mul(8));
    let paragraph = whole.split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= cap {
        return line;
    }
    let sentence = line.find(". ").map(|end| &line[..=end]).filter(|sentence| sentence.chars().count() <= cap);
    if let Some(sentence) = sentence {
        return sentence.to_owned();
    }
    let head: String = line.chars().take(cap.saturating_sub(1)).collect();
    let end = head.rfind(' ').filter(|end| *end > 0).unwrap_or(head.len());
    format!("{}{CUT}", head[..end].trim_end())
}

/// Wraps text at spaces to at most `width` characters. Line breaks and indentation stay.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.trim_end();
        let indent: String = line.chars().take_while(|letter| *letter == ' ').take(width / 2).collect();
        let mut current = indent.clone();
        let mut length = indent.len();
        let mut is_empty = true;
        for word in line.split(' ').filter(|word| !word.is_empty()) {
            let letters = word.chars().count();
            if !is_empty && length + 1 + letters > width {
                lines.push(std::mem::replace(&mut current, indent.clone()));
                length = indent.len();
                is_empty = true;
            }
            if !is_empty {
                current.push(' ');
                length += 1;
            }
            current.push_str(word);
            length += letters;
            is_empty = false;
        }
        lines.push(current.trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_removed_and_letters_are_kept() {
        assert_eq!(clean("a\u{202e}b\u{0}c\u{e0041}\u{200b} é 漢\u{1b}[31m", 100), "abc é 漢[31m");
        assert_eq!(clean("a\r\nb\rc\u{2028}d\te", 100), "a\nb\nc\nd e");
        assert_eq!(clean(&"x".repeat(50), 10), format!("{}…", "x".repeat(10)));
    }

    #[test]
    fn a_summary_is_one_line() {
        assert_eq!(one_line("Lists\n issues.\n\nMore.", 50), "Lists issues.");
        assert_eq!(one_line("First sentence. And then a long tail of words", 20), "First sentence.");
        assert_eq!(one_line("one two three four five", 12), "one two…");
        assert_eq!(one_line(&"y".repeat(99), 5), "yyyy…");
    }

    #[test]
    fn wrapping_keeps_indents_and_breaks_at_spaces() {
        assert_eq!(wrap("aaa bbb ccc\n  - ddd eee fff", 8), ["aaa bbb", "ccc", "  - ddd", "  eee", "  fff"]);
        assert_eq!(wrap(&"z".repeat(20), 8), ["z".repeat(20)]);
    }
}
