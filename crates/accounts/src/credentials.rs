//! Random tokens and the format of API keys.

use crate::error::AccountError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use coracle_store::ApiKey;
use coracle_types::Secret;
use std::time::SystemTime;

/// Prefix of every API key. It tells keys from other tokens and lets secret scanners find them.
pub(crate) const KEY_PREFIX: &str = "crk_";

/// Returns 256 random bits, encoded for URLs and headers.
pub fn random_token() -> Result<Secret, AccountError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| AccountError::Machine(format!("cannot get random numbers: {error}")))?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}

/// Whether a token has the form of an API key.
pub fn is_key(token: &str) -> bool {
    token.starts_with(KEY_PREFIX)
}

/// Whether a key is valid at this time.
pub fn is_good(key: &ApiKey, now: SystemTime) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now)
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
