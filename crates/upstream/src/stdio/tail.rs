//! The last lines of a child's standard error.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio_util::sync::CancellationToken;

/// The number of bytes to keep.
const KEPT: usize = 4 * 1024;
const CHUNK: usize = 4 * 1024;

/// Reads everything, so that the child never blocks, and keeps the end.
#[derive(Clone, Default)]
pub(crate) struct Tail {
    kept: Arc<Mutex<Vec<u8>>>,
    /// Cancelled when the stream has ended.
    pub(crate) ended: CancellationToken,
}

impl Tail {
    pub(crate) fn of(stderr: ChildStderr) -> Self {
        let tail = Self::default();
        tokio::spawn(tail.clone().drain(stderr));
        tail
    }

    async fn drain(self, mut stderr: ChildStderr) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            self.push(chunk.get(..count).unwrap_or_default());
        }
        self.ended.cancel();
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }

    /// The last lines as text, including secrets.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept() {
        let tail = Tail::default();
        tail.push(&vec![b'a'; KEPT]);
        tail.push(b"the end");
        let text = tail.text();
        assert_eq!(text.len(), KEPT);
        assert!(text.ends_with("aathe end"));
    }
}
