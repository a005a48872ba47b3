use async_trait::async_trait;
use std::fmt;

/// Another model that says what texts mean, in place of the table that the catalogue carries. Two texts that mean the
/// same have vectors of about the same direction.
#[async_trait]
pub trait Embedder: fmt::Debug + Send + Sync {
    /// What its vectors depend on: where it is, the model, the length. They are kept under this name, so there is no
    /// credential in it.
    fn identity(&self) -> String;

    /// One vector for each text, in their order and all of the same length; for any number of texts.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// Why there are no vectors. Holds no credential, and no text of the other side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// It did not answer.
    #[error("the embedder does not answer: {0}")]
    Silent(String),
    /// It did not take the request.
    #[error("the embedder refuses: {0}")]
    Refused(String),
    /// Its answer cannot be used.
    #[error("the embedder's answer cannot be used: {0}")]
    Useless(String),
}

impl EmbedError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Silent(_) => "embedder_silent",
            Self::Refused(_) => "embedder_refused",
            Self::Useless(_) => "embedder_useless",
        }
    }
}
