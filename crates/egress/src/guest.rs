//! The guest's side of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf, ReadHalf, WriteHalf};
use tokio::time::timeout;

/// Bytes that are read at once.
pub(crate) const PIECE: usize = 16 * 1024;
/// What is read and dropped at most, so that a guest which is still sending gets the answer before the connection ends.
const MAX_DRAINED: usize = 256 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Any two-way byte stream.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection from a guest. Its halves are used at the same time.
pub(crate) struct Guest {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
}

pub(crate) struct Reader {
    half: ReadHalf<Box<dyn Duplex>>,
    /// Bytes that were read and not used yet.
    pub(crate) buffer: BytesMut,
}

pub(crate) struct Writer {
    half: WriteHalf<Box<dyn Duplex>>,
    idle: Duration,
}

impl Guest {
    pub(crate) fn new(stream: impl Duplex + 'static, idle: Duration) -> Self {
        let (reader, writer) = tokio::io::split(Box::new(stream) as Box<dyn Duplex>);
        Self { reader: Reader { half: reader, buffer: BytesMut::new() }, writer: Writer { half: writer, idle } }
    }

    /// The stream, which starts with what has been read and not been used.
    pub(crate) fn into_stream(self) -> Rewound {
        Rewound { buffer: self.reader.buffer, stream: self.reader.half.unsplit(self.writer.half) }
    }

    /// Ends the connection. What the guest is still sending is dropped, within limits: if a socket is closed with unread
    /// bytes, the other side may lose the answer.
    pub(crate) async fn close(mut self) {
        if self.writer.half.shutdown().await.is_err() {
            return;
        }
        let drain = async {
            let mut drained = 0;
            while drained < MAX_DRAINED {
                self.reader.buffer.clear();
                match self.reader.half.read_buf(&mut self.reader.buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(read) => drained += read,
                }
            }
        };
        // Without an end in time, the connection is cut.
        let _ = timeout(DRAIN_TIME, drain).await;
    }
}

impl Reader {
    /// Reads more bytes into the buffer. Returns 0 at the end of the stream.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.reserve(PIECE);
        self.half.read_buf(&mut self.buffer).await
    }

    /// Like `fill`, but fails if nothing comes in time or the stream ends.
    pub(crate) async fn fill_within(&mut self, time: Duration) -> io::Result<()> {
        match timeout(time, self.fill()).await {
            Ok(Ok(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(result) => result.map(drop),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Takes exactly so many bytes.
    pub(crate) async fn take(&mut self, count: usize, time: Duration) -> io::Result<BytesMut> {
        while self.buffer.len() < count {
            self.fill_within(time).await?;
        }
        Ok(self.buffer.split_to(count))
    }
}

impl Writer {
    /// Writes everything. Fails if the guest does not take a piece of it in time.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            let written = timeout(self.idle, self.half.write_all(piece)).await;
            written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        }
        Ok(())
    }

    /// Sends what was written. TLS keeps it back otherwise.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        timeout(self.idle, self.half.flush()).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

/// A stream some bytes of which have been read already.
pub(crate) struct Rewound {
    buffer: BytesMut,
    stream: Box<dyn Duplex>,
}

impl AsyncRead for Rewound {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.buffer.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, out);
        }
        let count = self.buffer.len().min(out.remaining());
        out.put_slice(&self.buffer[..count]);
        self.buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
