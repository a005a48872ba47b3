//! Serves one client over standard input and output.

use crate::agent::AgentOptions;
use crate::mcp::{Frontend, new_client};
use coracle_accounts::People;
use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// Maximum length of a message in bytes. Longer ones are dropped and logged.
const MAX_MESSAGE: usize = 16 << 20;
/// Interval between checks whether the client still reads.
const LOOK: Duration = Duration::from_millis(20);

/// Serves one client over standard input and output until it disconnects or `stop` is cancelled.
pub async fn serve_stdio(
    mut frontend: Frontend,
    agent: AgentOptions,
    people: &People,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let agent = frontend.start_agent(agent, people, None, &stop);
    // Without a model no run can be continued, and the store need not be opened.
    let can_run = !agent.models.options.models.providers().is_empty();
    let taking_up = tokio::spawn(async move {
        if can_run {
            agent.take_up().await;
        }
    });
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let ended = CancellationToken::new();
    let transport =
        AsyncRwTransport::new_server(Watched { input, ended: ended.clone() }, output).with_max_line_length(MAX_MESSAGE);
    let gone = CancellationToken::new();
    frontend.gone = Some(gone.clone());
    frontend.client_place = new_client();
    // A client that has closed its output may still wait for answers. Calls are cancelled only once it no longer reads
    // either.
    let watch = tokio::spawn(async move {
        ended.cancelled().await;
        while output_is_open() {
            tokio::time::sleep(LOOK).await;
        }
        gone.cancel();
    });
    let served = serve(frontend, transport, stop).await;
    watch.abort();
    taking_up.abort();
    served
}

async fn serve<R, W>(
    frontend: Frontend,
    transport: AsyncRwTransport<rmcp::RoleServer, R, W>,
    stop: CancellationToken,
) -> std::io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let service = match frontend.serve_with_ct(transport, stop.clone()).await {
        Ok(service) => service,
        // Closing the connection without sending anything is not an error.
        Err(error) if stop.is_cancelled() || is_closed(&error) => return Ok(()),
        Err(error) => return Err(std::io::Error::other(error.to_string())),
    };
    service.waiting().await.map(drop).map_err(std::io::Error::other)
}

fn is_closed(error: &rmcp::service::ServerInitializeError) -> bool {
    matches!(error, rmcp::service::ServerInitializeError::ConnectionClosed(_))
}

/// Whether the other end of standard output is still open.
fn output_is_open() -> bool {
    let output = std::io::stdout();
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let looked = poll(&mut polled, Some(&Timespec::default()));
    looked.is_err() || !polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Standard input that reports its end.
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
