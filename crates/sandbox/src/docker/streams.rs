//! The streams of one sandbox, as tokio reads and writes them.

use super::mux::{Mux, WINDOW};
use crate::{Cause, Exit};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// The maximum number of bytes of one frame to the guest.
const PIECE: usize = 64 * 1024;
/// The agent hears how much was taken when it is at least this much.
const REPORTED: usize = WINDOW / 4;

/// The wait status of a process that was killed.
const STATUS_KILLED: i32 = 9;

/// A stream from the guest.
#[derive(Debug, Default)]
struct Incoming {
    pieces: VecDeque<Bytes>,
    /// The number of bytes in it.
    length: usize,
    /// The number of bytes that were read and not reported.
    unreported: usize,
    ended: bool,
    reader: Option<Waker>,
}

/// The stream to the guest.
#[derive(Debug)]
struct Outgoing {
    room: usize,
    ended: bool,
    writer: Option<Waker>,
}

/// What is known about one sandbox.
#[derive(Debug)]
pub(super) struct Slot {
    incoming: [Mutex<Incoming>; 3],
    outgoing: Mutex<Outgoing>,
    exited: watch::Sender<Option<Exit>>,
    seen: Mutex<Vec<Cause>>,
    nameless: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            incoming: Default::default(),
            outgoing: Mutex::new(Outgoing { room: WINDOW, ended: false, writer: None }),
            exited: watch::Sender::new(None),
            seen: Mutex::default(),
            nameless: AtomicU64::new(0),
        }
    }

    /// Adds bytes to a stream. Returns false if there are more than the agent may send.
    pub(super) fn push(&self, stream: usize, bytes: Bytes) -> bool {
        let Some(incoming) = self.incoming.get(stream) else { return false };
        let mut incoming = lock(incoming);
        incoming.length += bytes.len();
        if incoming.length + incoming.unreported > WINDOW {
            return false;
        }
        incoming.pieces.push_back(bytes);
        wake(incoming.reader.take());
        true
    }

    /// Ends a stream.
    pub(super) fn end(&self, stream: usize) {
        let Some(incoming) = self.incoming.get(stream) else { return };
        let mut incoming = lock(incoming);
        incoming.ended = true;
        wake(incoming.reader.take());
    }

    /// Notes that the guest has taken so many bytes.
    pub(super) fn add_room(&self, count: usize) {
        let mut outgoing = lock(&self.outgoing);
        outgoing.room = outgoing.room.saturating_add(count).min(WINDOW);
        wake(outgoing.writer.take());
    }

    /// Notes a limit that was reached.
    pub(super) fn note(&self, cause: Cause) {
        lock(&self.seen).push(cause);
    }

    pub(super) fn set_nameless(&self, bytes: u64) {
        self.nameless.store(bytes, Ordering::Relaxed);
    }

    /// The sandbox is gone, with this wait status.
    pub(super) fn exit(&self, status: i32) {
        let causes = lock(&self.seen).clone();
        self.exit_with(Exit { status, causes });
    }

    fn exit_with(&self, exit: Exit) {
        self.exited.send_if_modified(|exited| {
            let first = exited.is_none();
            if first {
                *exited = Some(exit);
            }
            first
        });
        let mut outgoing = lock(&self.outgoing);
        outgoing.ended = true;
        wake(outgoing.writer.take());
    }

    /// The sandbox could not be created.
    pub(super) fn fail(&self, reason: &str) {
        self.end_with(Exit { status: STATUS_KILLED, causes: vec![Cause::Setup(reason.to_owned())] });
    }

    /// The sandbox was lost with its container.
    pub(super) fn lose(&self, reason: &str) {
        let mut causes = lock(&self.seen).clone();
        causes.push(Cause::Lost(reason.to_owned()));
        self.end_with(Exit { status: STATUS_KILLED, causes });
    }

    fn end_with(&self, exit: Exit) {
        self.exit_with(exit);
        for stream in 0..self.incoming.len() {
            self.end(stream);
        }
    }

    /// Whether nothing of it will come any more.
    pub(super) fn is_over(&self) -> bool {
        self.exited.borrow().is_some() && self.incoming.iter().all(|incoming| lock(incoming).ended)
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The end of the streams on this side.
pub(super) struct Streams {
    pub(super) to_guest: ToGuest,
    pub(super) from_guest: FromGuest,
    pub(super) stdout: FromGuest,
    pub(super) stderr: FromGuest,
    pub(super) life: Life,
}

impl Streams {
    pub(super) fn new(mux: Arc<Mux>, number: u32, slot: Arc<Slot>) -> Self {
        let from = |stream| FromGuest { mux: Arc::clone(&mux), number, slot: Arc::clone(&slot), stream };
        Self {
            to_guest: ToGuest { mux: Arc::clone(&mux), number, slot: Arc::clone(&slot) },
            from_guest: from(0),
            stdout: from(1),
            stderr: from(2),
            life: Life { mux, number, slot },
        }
    }
}

/// The life of a sandbox. It is killed on drop.
pub(super) struct Life {
    mux: Arc<Mux>,
    number: u32,
    slot: Arc<Slot>,
}

impl Life {
    pub(super) fn kill(&self) {
        self.mux.kill(self.number);
    }

    /// Kills it, and does not read any of its streams again.
    pub(super) fn forget(&self) {
        self.mux.forget(self.number);
    }

    /// Notes a limit that was reached, and ends the sandbox for it.
    pub(super) fn end_for(&self, cause: Cause) {
        self.slot.note(cause);
        self.kill();
    }

    /// Waits until the sandbox is gone. The status is a wait status.
    pub(super) async fn exited(&self) -> Exit {
        let mut exited = self.slot.exited.subscribe();
        let exit = exited.wait_for(Option::is_some).await.ok().and_then(|exited| exited.clone());
        exit.unwrap_or(Exit { status: STATUS_KILLED, causes: Vec::new() })
    }

    /// The limits that were reached.
    pub(super) fn seen(&self) -> Vec<Cause> {
        lock(&self.slot.seen).clone()
    }

    /// Forgets the limits that were reached in earlier runs.
    pub(super) fn rest(&self) {
        lock(&self.slot.seen).clear();
    }

    /// The size of deleted files that the sandbox holds open.
    pub(super) fn nameless(&self) -> u64 {
        self.slot.nameless.load(Ordering::Relaxed)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.forget();
    }
}

/// The stream to the guest, which is closed on drop.
pub(super) struct ToGuest {
    mux: Arc<Mux>,
    number: u32,
    slot: Arc<Slot>,
}

impl AsyncWrite for ToGuest {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut outgoing = lock(&self.slot.outgoing);
        if outgoing.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(outgoing.room).min(PIECE);
        if count == 0 && !bytes.is_empty() {
            outgoing.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        outgoing.room -= count;
        self.mux.bytes(self.number, &bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.mux.close(self.number);
        Poll::Ready(Ok(()))
    }
}

impl Drop for ToGuest {
    fn drop(&mut self) {
        self.mux.close(self.number);
    }
}

/// A stream from the guest.
pub(super) struct FromGuest {
    mux: Arc<Mux>,
    number: u32,
    slot: Arc<Slot>,
    stream: u8,
}

impl AsyncRead for FromGuest {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(incoming) = self.slot.incoming.get(usize::from(self.stream)) else { return Poll::Ready(Ok(())) };
        let mut incoming = lock(incoming);
        let Some(piece) = incoming.pieces.front_mut() else {
            if !incoming.ended {
                incoming.reader = Some(context.waker().clone());
                return Poll::Pending;
            }
            return Poll::Ready(Ok(()));
        };
        let count = piece.len().min(buffer.remaining());
        buffer.put_slice(&piece[..count]);
        piece.advance(count);
        if piece.is_empty() {
            incoming.pieces.pop_front();
        }
        incoming.length -= count;
        incoming.unreported += count;
        if incoming.unreported >= REPORTED {
            let count = std::mem::take(&mut incoming.unreported);
            self.mux.taken(self.number, self.stream, count as u32);
        }
        Poll::Ready(Ok(()))
    }
}
