use coracle_store::StoreError;

/// Why text could not be tokenized or restored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PrivacyError {
    /// The vault cannot be used.
    #[error("the vault of personal data cannot be used: {0}")]
    Vault(#[from] StoreError),
    /// Two keys of a JSON object became the same one.
    #[error("two keys of an object are the same after tokens have been replaced")]
    SameKey,
    /// The search for known values could not be built.
    #[error("known values cannot be searched: {reason}")]
    Search {
        /// The reason.
        reason: String,
    },
    /// A value is too long for the vault.
    #[error("a value that has to be replaced is {bytes} bytes long: the maximum is {max}")]
    TooLong {
        /// The length of the value.
        bytes: usize,
        /// The maximum.
        max: usize,
    },
}

impl PrivacyError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Vault(error) => error.code(),
            Self::SameKey => "privacy_same_key",
            Self::Search { .. } => "privacy_search",
            Self::TooLong { .. } => "privacy_too_long",
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Vault(error) => error.hint(),
            Self::SameKey | Self::Search { .. } | Self::TooLong { .. } => None,
        }
    }
}
