use tokio_util::sync::CancellationToken;

/// Cancelled when the client of a request is gone: its connection, or the stream of its answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone(pub(crate) CancellationToken);
