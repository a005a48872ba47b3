//! What other clients have configured.

use coracle_types::ServerName;

/// A valid name that is as near as can be to any text.
pub(crate) fn server_name(text: &str) -> String {
    const MOST: usize = 48;
    let mut name = String::new();
    for c in text.trim().chars().take(4 * MOST) {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name: String = name.trim_matches(['-', '.']).chars().take(MOST).collect();
    if ServerName::new(&name).is_ok() { name } else { "server".to_owned() }
}
