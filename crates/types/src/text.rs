/// Whether a character is invisible or changes how others are displayed: controls, direction marks, joiners, tags.
///
/// Such characters in foreign text (names, errors, questions) are removed or escaped before the text is displayed: they
/// could move the cursor, reverse the rest of the line, or make two names look the same.
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes hidden characters and limits the text to one line of `most` characters.
pub fn single_line(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (count, c) in text.trim().chars().enumerate() {
        if count == most {
            shown.push('…');
            break;
        }
        match c {
            '\n' | '\r' | '\t' => shown.push(' '),
            c if is_hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{is_hidden, single_line};

    #[test]
    fn hidden_characters_are_escaped_in_a_line() {
        assert_eq!(single_line(" a\nb\u{1b}[2K\u{202e}c ", 100), "a b\\u{1b}[2K\\u{202e}c");
        assert_eq!(single_line("abcd", 3), "abc…");
        assert_eq!(single_line("Löscht 删除 🗑", 100), "Löscht 删除 🗑");
    }

    #[test]
    fn hidden_characters_are_distinguished_from_visible_ones() {
        for c in ['\0', '\n', '\u{1b}', '\u{7f}', '\u{9b}', '\u{200b}', '\u{200d}', '\u{202e}', '\u{2066}', '\u{e0041}']
        {
            assert!(is_hidden(c), "{c:?}");
        }
        for c in ['a', ' ', '~', 'é', '漢', 'ש', '🗑', '…'] {
            assert!(!is_hidden(c), "{c:?}");
        }
    }
}
