//! Classes of characters by which the tokenizer splits.

/// Punctuation and quotes, which are split off both ends of a word.
pub(super) fn is_mark(letter: char) -> bool {
    matches!(
        letter,
        '…' | ','
            | ':'
            | ';'
            | '!'
            | '?'
            | '¿'
            | '¡'
            | '('
            | ')'
            | '['
            | ']'
            | '{'
            | '}'
            | '<'
            | '>'
            | '_'
            | '#'
            | '*'
            | '&'
            | '\''
            | '"'
            | '”'
            | '“'
            | '`'
            | '‘'
            | '´'
            | '’'
            | '‚'
            | '„'
            | '»'
            | '«'
            | '·'
            | '\u{61f}'
            | '\u{60c}'
            | '\u{61b}'
            | '\u{6d4}'
            | '\u{66a}'
            | '\u{964}'
            | '\u{3001}'
            | '\u{3002}'
            | '\u{3008}'
            ..='\u{3011}'
                | '\u{3014}'
                | '\u{3015}'
                | '\u{ff01}'
                | '\u{ff08}'
                | '\u{ff09}'
                | '\u{ff0c}'
                | '\u{ff1a}'
                | '\u{ff1b}'
                | '\u{ff1f}'
                | '\u{ff5e}'
                | '\u{27e6}'
                | '\u{27e7}'
    )
}

pub(super) fn is_quote(letter: char) -> bool {
    matches!(letter, '\'' | '"' | '”' | '“' | '`' | '‘' | '´' | '’' | '‚' | '„' | '»' | '«')
}

pub(super) fn is_currency(letter: char) -> bool {
    matches!(letter, '$' | '£' | '€' | '¥' | '฿' | '﷼' | '\u{20a0}'..='\u{20bf}')
}

/// Symbols and emoji, each of which is a token.
pub(super) fn is_symbol(letter: char) -> bool {
    matches!(
        letter,
        '¦' | '©' | '®' | '°' | '\u{2100}'..='\u{214f}' | '\u{2195}'..='\u{21f3}' | '\u{2300}'..='\u{27bf}'
            | '\u{2800}'..='\u{28ff}' | '\u{2b00}'..='\u{2bff}' | '\u{fffc}' | '\u{fffd}' | '\u{1f000}'..='\u{1faff}'
    )
}

/// A lower-case letter, or one of a script without case.
pub(super) fn is_lower(letter: char) -> bool {
    letter.is_alphabetic() && !letter.is_uppercase()
}

/// An upper-case letter, or one of a script without case.
pub(super) fn is_upper(letter: char) -> bool {
    letter.is_alphabetic() && !letter.is_lowercase()
}

/// Units that are split off a number: `5kg`.
pub(super) const UNITS: [&str; 45] = [
    "km", "km²", "km³", "m", "m²", "m³", "dm", "dm²", "dm³", "cm", "cm²", "cm³", "mm", "mm²", "mm³", "ha", "µm", "nm",
    "yd", "in", "ft", "kg", "g", "mg", "µg", "t", "lb", "oz", "m/s", "km/h", "kmh", "mph", "hPa", "Pa", "mbar", "mb",
    "MB", "kb", "KB", "gb", "GB", "tb", "TB", "T", "%",
];

/// Units of one upper-case letter.
pub(super) const LETTER_UNITS: [&str; 3] = ["G", "M", "K"];
