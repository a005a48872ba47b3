//! Writes the body of a request into a workspace while it arrives.

use super::problem::ApiError;
use crate::mcp::{Frontend, with_files};
use bytes::Bytes;
use coracle_engine::{Existing, FileInfo};
use futures::{Stream, StreamExt as _};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;

/// An upload is aborted after this long without data.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of chunks of an upload that wait to be written.
const QUEUE: usize = 16;

/// A file that is being uploaded.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    /// Path relative to the workspace.
    pub(crate) path: String,
    /// Length, if it is known.
    pub(crate) length: Option<u64>,
    /// What to do if the file exists.
    pub(crate) existing: Existing,
}

/// Writes a file from a stream. It is complete and on the disk, or not there.
pub(crate) async fn write(
    frontend: &Frontend,
    upload: Upload,
    content: impl Stream<Item = Result<Bytes, ApiError>> + Send,
) -> Result<FileInfo, ApiError> {
    let most = frontend.options.settings.limits().file_mb.saturating_mul(1_000_000);
    let too_large = || {
        let text = format!("the file is too large: at most {most} bytes are allowed (execution.limits.file_mb)");
        ApiError::too_large(text)
    };
    let Upload { path, length, existing } = upload;
    if length.is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let (pieces, mut arriving) = mpsc::channel::<Option<Bytes>>(QUEUE);
    let writer = with_files(frontend, move |files| {
        let mut unfinished = files.begin(&path, length, existing)?;
        while let Some(piece) = arriving.blocking_recv() {
            match piece {
                Some(bytes) => unfinished.push(&bytes)?,
                None => return unfinished.finish().map(Some),
            }
        }
        // The sender has given up.
        Ok(None)
    });
    let sender = async move {
        let mut content = pin!(content);
        let mut sent: u64 = 0;
        loop {
            let piece = match tokio::time::timeout(PATIENCE, content.next()).await {
                Err(_) => {
                    let text = format!("no data arrived for {} seconds", PATIENCE.as_secs());
                    return Err(ApiError::invalid(text));
                }
                Ok(piece) => piece.transpose()?,
            };
            let is_last = piece.is_none();
            sent += piece.as_ref().map_or(0, |piece| piece.len() as u64);
            if sent > most {
                return Err(too_large());
            }
            // A writer that has failed stops receiving and reports its error.
            if pieces.send(piece).await.is_err() || is_last {
                return Ok(());
            }
        }
    };
    let (written, sent) = tokio::join!(writer, sender);
    let written = written?;
    sent?;
    written.ok_or_else(|| ApiError::invalid("the body is incomplete"))
}
