use crate::Pattern;
use coracle_types::Tool;

/// The maximum length of a key that is written plainly. YAML requires `? ` before keys of more than 1,024 characters.
const MAX_PLAIN_KEY: usize = 1_000;

/// The configuration line that allows this tool and no other, whatever its name contains.
pub(crate) fn allow_line(tool: &Tool) -> String {
    let key = quoted(Pattern::exactly(tool).as_str());
    let announced = if key.len() > MAX_PLAIN_KEY { "? " } else { "" };
    format!("policy: {{ tools: {{ {announced}{key}: allow }} }}")
}

/// Quotes a string, escaping everything but printable ASCII, so that neither YAML nor a terminal interprets it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            _ => quoted.push_str(&escaped(c)),
        }
    }
    quoted.push('"');
    quoted
}

fn escaped(c: char) -> String {
    let number = u32::from(c);
    if number > 0xffff { format!("\\U{number:08x}") } else { format!("\\u{number:04x}") }
}
