//! Passing a tunnel through, unread.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::sleep;

use crate::guest::PIECE;
use crate::ticket::Ticket;

/// Copies both ways until both sides have ended, one fails, or nothing has moved for a while.
pub(crate) async fn relay(
    guest: impl AsyncRead + AsyncWrite,
    upstream: impl AsyncRead + AsyncWrite,
    ticket: &Ticket,
    idle: Duration,
) -> io::Result<()> {
    let (guest_reader, guest_writer) = tokio::io::split(guest);
    let (upstream_reader, upstream_writer) = tokio::io::split(upstream);
    let up = copy(guest_reader, upstream_writer, &ticket.up);
    let down = copy(upstream_reader, guest_writer, &ticket.down);
    let watch = async {
        let mut before = ticket.bytes();
        loop {
            sleep(idle).await;
            let now = ticket.bytes();
            if now == before {
                return;
            }
            before = now;
        }
    };
    tokio::select! {
        result = async { tokio::try_join!(up, down) } => result.map(drop),
        () = watch => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, count: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        to.flush().await?;
        count.fetch_add(read as u64, Ordering::Relaxed);
    }
}
