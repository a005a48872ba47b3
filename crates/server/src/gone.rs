use tokio_util::sync::CancellationToken;

/// Cancelled when the client of a request has disconnected or dropped the response stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone(pub(crate) CancellationToken);
