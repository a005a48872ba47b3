use async_trait::async_trait;
use std::fmt;

/// A model that is used instead of the catalogue's built-in table. Two texts with the same meaning have vectors of about
/// the same direction.
#[async_trait]
pub trait Embedder: fmt::Debug + Send + Sync {
    /// Everything that its vectors depend on: address, model, dimensions. Vectors are stored under this name, so it contains
    /// no credential.
    fn identity(&self) -> String;

    /// One vector for each text, in the same order and all of the same length. There may be any number of texts.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// Why there are no vectors. Contains no credential, and no text of the embedder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The embedder did not answer.
    #[error("the embedder does not answer: {0}")]
    Silent(String),
    /// The embedder rejected the request.
    #[error("the embedder refuses: {0}")]
    Refused(String),
    /// The answer cannot be used.
    #[error("the embedder's answer cannot be used: {0}")]
    Useless(String),
}

impl EmbedError {
    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Silent(_) => "embedder_silent",
            Self::Refused(_) => "embedder_refused",
            Self::Useless(_) => "embedder_useless",
        }
    }
}
