//! Minimum rate of clients: a client that sends a body or reads a response too slowly is dropped.

use super::table::{Record, Ticket};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};

/// Longest time that a client may make no progress while the server waits for it.
const GRACE: Duration = Duration::from_secs(10);
/// Minimum rate over a longer time, in bytes per second.
const RATE: u32 = 4 << 10;

/// Time that a client has left. Waiting uses it up, and each transferred byte restores some of it.
#[derive(Debug)]
struct Allowance {
    left: Duration,
    waiting: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Allowance {
    fn new() -> Self {
        Self { left: GRACE, waiting: None, timer: None }
    }

    /// Waits for the client. Ready when the time is used up.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let over = if let Some(since) = self.waiting {
            since + self.left
        } else {
            let now = Instant::now();
            self.waiting = Some(now);
            let over = now + self.left;
            if let Some(timer) = &mut self.timer {
                timer.as_mut().reset(over);
            }
            over
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(over)));
        timer.as_mut().poll(context)
    }

    /// Records that the client has sent or received this many bytes.
    fn moved(&mut self, bytes: usize) {
        if let Some(since) = self.waiting.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
        if self.left < GRACE {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.left = (self.left + Duration::from_secs(1) * bytes / RATE).min(GRACE);
        }
    }
}

/// Connection with a minimum rate for writes.
#[derive(Debug)]
pub(crate) struct PacedStream {
    stream: TcpStream,
    writing: Allowance,
    record: Record,
}

impl PacedStream {
    pub(crate) fn new(stream: TcpStream, record: Record) -> Self {
        Self { stream, writing: Allowance::new(), record }
    }

    fn paced(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => self.writing.moved(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                self.record.writes();
                if self.writing.poll_over(context).is_ready() {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")));
                }
            }
        }
        written
    }
}

impl Drop for PacedStream {
    fn drop(&mut self) {
        if self.record.is_unread() {
            // Otherwise the system would keep retransmitting unread data.
            let _ = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.paced(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.paced(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when everything is written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.record.has_written();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Whether the body of a request has arrived too slowly.
#[derive(Clone, Debug, Default)]
pub(crate) struct TooSlow(Arc<AtomicBool>);

impl TooSlow {
    pub(crate) fn is_so(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Request body with a minimum rate.
#[derive(Debug)]
pub(crate) struct PacedBody<B> {
    body: B,
    reading: Allowance,
    too_slow: TooSlow,
    record: Record,
}

impl<B> PacedBody<B> {
    pub(crate) fn new(body: B, too_slow: TooSlow, record: Record) -> Self {
        Self { body, reading: Allowance::new(), too_slow, record }
    }
}

impl<B> Drop for PacedBody<B> {
    fn drop(&mut self) {
        self.record.has_read();
    }
}

impl<B: Body<Data = Bytes, Error = hyper::Error> + Unpin> Body for PacedBody<B> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(None) => {
                self.record.has_read();
                Poll::Ready(None)
            }
            Poll::Ready(Some(frame)) => {
                let bytes = frame.as_ref().ok().and_then(|frame| frame.data_ref()).map_or(0, Bytes::len);
                self.reading.moved(bytes);
                Poll::Ready(Some(frame.map_err(io::Error::other)))
            }
            Poll::Pending => {
                self.record.reads();
                if self.reading.poll_over(context).is_pending() {
                    return Poll::Pending;
                }
                self.too_slow.0.store(true, Ordering::Release);
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the body arrives too slowly"))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Number of requests that are being answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answering(Arc<(AtomicUsize, Notify)>);

impl Answering {
    /// Counts one more request until the guard is dropped.
    pub(crate) fn begin(&self) -> Answered {
        self.0.0.fetch_add(1, Ordering::AcqRel);
        Answered(self.clone())
    }

    /// Waits until there are none.
    pub(crate) async fn settled(&self) {
        let (count, none) = &*self.0;
        loop {
            let notified = none.notified();
            if count.load(Ordering::Acquire) == 0 {
                return;
            }
            notified.await;
        }
    }
}

/// Guard of a request that is being answered.
#[derive(Debug)]
pub(crate) struct Answered(Answering);

impl Drop for Answered {
    fn drop(&mut self) {
        let (count, none) = &*self.0.0;
        if count.fetch_sub(1, Ordering::AcqRel) == 1 {
            none.notify_waiters();
        }
    }
}

/// Response body. When it is dropped, the connection is free for another request.
pub(crate) struct AnswerBody<B> {
    body: B,
    ticket: Arc<Ticket>,
    _answered: Option<Answered>,
}

impl<B> AnswerBody<B> {
    pub(crate) fn new(body: B, ticket: Arc<Ticket>, answered: Option<Answered>) -> Self {
        Self { body, ticket, _answered: answered }
    }
}

impl<B> Drop for AnswerBody<B> {
    fn drop(&mut self) {
        self.ticket.end();
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowance, GRACE, RATE};
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::time::{Instant, sleep, timeout};

    /// Returns how long the server waits for a client that transfers this many bytes per second.
    async fn patience(bytes: usize) -> Duration {
        let (begun, mut allowance) = (Instant::now(), Allowance::new());
        while begun.elapsed() < Duration::from_hours(1) {
            let waited = timeout(Duration::from_secs(1), poll_fn(|context| allowance.poll_over(context)));
            if waited.await.is_ok() {
                break;
            }
            allowance.moved(bytes);
        }
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn idle_and_slow_clients_are_dropped() {
        let rate = RATE as usize;
        assert!(patience(0).await <= GRACE + Duration::from_secs(1));
        assert!(patience(1).await <= GRACE + Duration::from_secs(1));
        assert!(patience(rate / 2).await <= 3 * GRACE);
        assert!(patience(rate + 1).await >= Duration::from_hours(1), "fast enough");
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_waiting_does_not_count() {
        let mut allowance = Allowance::new();
        for _ in 0..100 {
            allowance.moved(1);
            sleep(Duration::from_hours(1)).await;
        }
        assert_eq!(allowance.left, GRACE);
    }
}
