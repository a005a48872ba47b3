//! An output stream of a sandbox.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;

/// A pipe that is always read before it reports that it is empty: the runtime is notified of new bytes with a small
/// delay, and the guest's last frame, on another stream, may arrive before that.
#[derive(Debug)]
pub(super) struct Output(pub(super) pipe::Receiver);

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let ready @ Poll::Ready(_) = Pin::new(&mut self.0).poll_read(context, buffer) {
            return ready;
        }
        match rustix::io::read(&self.0, buffer.initialize_unfilled()) {
            Ok(length) => {
                buffer.advance(length);
                Poll::Ready(Ok(()))
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Poll::Pending,
            Err(errno) => Poll::Ready(Err(errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Output;
    use std::future::poll_fn;
    use std::io::Write;
    use std::pin::Pin;
    use std::task::Poll;
    use tokio::io::{AsyncRead, ReadBuf};

    /// Polls once, without letting the runtime check for events.
    async fn read_now(output: &mut (impl AsyncRead + Unpin)) -> Option<usize> {
        let mut bytes = [0; 16];
        poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut bytes);
            Poll::Ready(match Pin::new(&mut *output).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => Some(buffer.filled().len()),
                _ => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn bytes_are_read_before_the_runtime_is_notified() {
        let (sender, receiver) = tokio::net::unix::pipe::pipe().unwrap();
        let mut output = Output(receiver);
        let mut writer = std::fs::File::from(sender.into_blocking_fd().unwrap());
        assert_eq!(read_now(&mut output).await, None);
        writer.write_all(b"words").unwrap();
        assert_eq!(read_now(&mut output.0).await, None, "otherwise this type would not be needed");
        assert_eq!(read_now(&mut output).await, Some(5));
        assert_eq!(read_now(&mut output).await, None);
        drop(writer);
        assert_eq!(read_now(&mut output).await, Some(0), "the end");
    }
}
