//! The forms in which a value is searched in a text.

use std::fmt::Write as _;

/// A number of at least this many digits is also found without its separators.
const PLAIN_DIGITS: usize = 7;

/// A value as it is, and with the escapes of the formats that have to change it.
pub(super) fn forms(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    let mut add = |form: String| {
        if !forms.contains(&form) {
            forms.push(form);
        }
    };
    let digits: String = value.chars().filter(char::is_ascii_digit).collect();
    if digits.len() >= PLAIN_DIGITS && !value.contains(|c: char| c.is_alphabetic()) {
        add(digits);
    }
    // JSON, and JSON in a text of JSON.
    let once = json(value);
    add(json(&once));
    add(json(&json(&once)));
    add(once);
    if value.contains('"') {
        // As in a table with separators.
        add(value.replace('"', "\"\""));
    }
    if value.contains(' ') {
        // As in a form on the web.
        add(value.replace(' ', "+"));
    }
    if value.contains('\'') {
        add(value.replace('\'', "\\'"));
    }
    if value.contains(['&', '<', '>', '"', '\'']) {
        let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        add(html.replace('\'', "&#39;"));
        add(html.replace('\'', "&#x27;"));
    }
    if !value.is_ascii() {
        // As in Python's `json.dumps`, in its `ascii`, and in its bytes.
        let utf16: String = value.chars().map(utf16_escape).collect();
        add(utf16.replace('\\', "\\\\"));
        add(utf16);
        add(value.chars().map(python_escape).collect());
        add(value
            .bytes()
            .map(|byte| if byte.is_ascii() { char::from(byte).into() } else { hex_escape(byte) })
            .collect());
    }
    forms
}

fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

fn utf16_escape(c: char) -> String {
    if c.is_ascii() {
        return json(c.encode_utf8(&mut [0; 4]));
    }
    let mut escape = String::new();
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a `String` cannot fail.
        let _ = write!(escape, "\\u{unit:04x}");
    }
    escape
}

fn python_escape(c: char) -> String {
    match u32::from(c) {
        0..0x80 => c.into(),
        code @ 0x80..0x100 => format!("\\x{code:02x}"),
        code @ 0x100..0x1_0000 => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

fn hex_escape(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

#[cfg(test)]
mod tests {
    use super::forms;

    #[test]
    fn a_value_has_the_forms_that_formats_give_it() {
        assert_eq!(forms("ann@example.org"), ["ann@example.org"]);
        assert_eq!(forms("(415) 555-0123"), ["(415) 555-0123", "4155550123", "(415)+555-0123"]);
        let forms = forms("Zoë O'Neil \"\u{1F600}\"\n");
        for form in [
            "Zoë O'Neil \\\"\u{1F600}\\\"\\n",
            "Zoë O'Neil \\\\\\\"\u{1F600}\\\\\\\"\\\\n",
            "Zo\\u00eb O'Neil \\\"\\ud83d\\ude00\\\"\\n",
            "Zo\\xeb O'Neil \"\\U0001f600\"\n",
            "Zo\\xc3\\xab O'Neil \"\\xf0\\x9f\\x98\\x80\"\n",
            "Zoë O\\'Neil \"\u{1F600}\"\n",
            "Zoë O&#39;Neil &quot;\u{1F600}&quot;\n",
            "Zoë+O'Neil+\"\u{1F600}\"\n",
        ] {
            assert!(forms.iter().any(|one| one == form), "{form}: {forms:?}");
        }
    }
}
