//! Random tokens and the format of API keys.

use super::AccountError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use coracle_types::Secret;

/// Prefix of every API key. It tells keys from other tokens and lets secret scanners find them.
pub(crate) const KEY_PREFIX: &str = "crk_";

/// Returns 256 random bits, encoded for URLs and headers.
pub(crate) fn random_token() -> Result<Secret, AccountError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| AccountError::Machine(format!("cannot get random numbers: {error}")))?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}

pub(crate) fn is_key(token: &str) -> bool {
    token.starts_with(KEY_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::random_token;

    #[test]
    fn tokens_are_unique() {
        let [one, two] = [random_token().unwrap(), random_token().unwrap()];
        assert_ne!(one, two);
        assert_eq!(one.expose().len(), 43);
    }
}
