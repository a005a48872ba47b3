//! One client over standard input and output.

use crate::mcp::Face;
use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// No message of a client is longer; a longer one is dropped and logged.
const MAX_MESSAGE: usize = 16 << 20;
/// So often it is looked whether anybody still reads.
const LOOK: Duration = Duration::from_millis(20);

/// Serves one client over standard input and output until it goes away or `stop` is cancelled.
pub async fn serve_stdio(mut face: Face, stop: CancellationToken) -> std::io::Result<()> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let ended = CancellationToken::new();
    let transport =
        AsyncRwTransport::new_server(Watched { input, ended: ended.clone() }, output).with_max_line_length(MAX_MESSAGE);
    let gone = CancellationToken::new();
    face.gone = Some(gone.clone());
    // Whoever has said all that there is to say may still wait for answers; whoever is not there any more does not.
    let watch = tokio::spawn(async move {
        ended.cancelled().await;
        while somebody_reads() {
            tokio::time::sleep(LOOK).await;
        }
        gone.cancel();
    });
    let served = serve(face, transport, stop).await;
    watch.abort();
    served
}

async fn serve<R, W>(
    face: Face,
    transport: AsyncRwTransport<rmcp::RoleServer, R, W>,
    stop: CancellationToken,
) -> std::io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: tokio::io::AsyncWrite + Send + Unpin + 'static,
{
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

/// Whether the other end of standard output is there.
fn somebody_reads() -> bool {
    let output = std::io::stdout();
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let looked = poll(&mut polled, Some(&Timespec::default()));
    looked.is_err() || !polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Standard input, and the news that it has ended.
struct Watched<R> {
    input: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.input).poll_read(context, buffer);
        let is_end = matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == before && buffer.remaining() > 0;
        if is_end || matches!(read, Poll::Ready(Err(_))) {
            self.ended.cancel();
        }
        read
    }
}
