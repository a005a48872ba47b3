use crate::face::Face;
use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio_util::sync::CancellationToken;

/// No message of a client is longer; a longer one is dropped and logged.
const MAX_MESSAGE: usize = 16 << 20;

/// Serves one client over standard input and output until it goes away or `stop` is cancelled.
pub async fn serve_stdio(face: Face, stop: CancellationToken) -> std::io::Result<()> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_MESSAGE);
    let service = match face.serve_with_ct(transport, stop.clone()).await {
        Ok(service) => service,
        // Somebody who closes it again without a word has made no mistake.
        Err(error) if stop.is_cancelled() || is_closed(&error) => return Ok(()),
        Err(error) => return Err(std::io::Error::other(error.to_string())),
    };
    service.waiting().await.map(drop).map_err(std::io::Error::other)
}

fn is_closed(error: &rmcp::service::ServerInitializeError) -> bool {
    matches!(error, rmcp::service::ServerInitializeError::ConnectionClosed(_))
}
