//! Tokens that nobody can guess, and names that can be kept.

use super::AccountError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use coracle_types::Secret;

/// Every API key begins so: it is told from other tokens, and found by programs that look for credentials in texts.
pub(crate) const KEY_PREFIX: &str = "crk_";

/// Longest name that is made of what a provider says.
const MAX_PLAIN: usize = 40;

/// 256 random bits, for addresses and headers.
pub(crate) fn random_token() -> Result<Secret, AccountError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| AccountError::Machine(format!("no random numbers: {error}")))?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}

pub(crate) fn is_key(token: &str) -> bool {
    token.starts_with(KEY_PREFIX)
}

/// What of a foreign name can be one here.
pub(super) fn plain_name(text: &str) -> String {
    let text = text.split('@').next().unwrap_or_default().to_ascii_lowercase();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = text.chars().take(MAX_PLAIN).map(plain).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "user".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{plain_name, random_token};
    use coracle_types::UserId;

    #[test]
    fn foreign_names_become_names() {
        for (foreign, name) in [
            ("Ann.Lee@example.com", "ann.lee"),
            ("auth0|1234", "auth0-1234"),
            ("../../etc", "etc"),
            ("Ünger", "nger"),
            ("删除", "user"),
            ("@x", "user"),
        ] {
            assert_eq!(plain_name(foreign), name);
            UserId::new(plain_name(foreign)).unwrap();
        }
        assert_eq!(plain_name(&"x".repeat(500)).len(), 40);
    }

    #[test]
    fn no_token_comes_twice() {
        let [one, two] = [random_token().unwrap(), random_token().unwrap()];
        assert_ne!(one, two);
        assert_eq!(one.expose().len(), 43);
    }
}
