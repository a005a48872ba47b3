//! Archives that are sent while they are written.

use crate::http::problem::ApiError;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::time::Duration;
use tokio::sync::mpsc;

/// Number of bytes that are sent at once.
const CHUNK: usize = 64 << 10;
/// Number of chunks that wait to be sent. If the client is slower, writing waits.
const AHEAD: usize = 4;

/// Sends what `write` writes as a file with this name. If it fails, the response breaks off, so that the client does not
/// take it for complete.
pub(crate) fn archive<W, E>(mime: &'static str, name: &str, write: impl FnOnce(BufWriter<Sending>) -> W) -> Response
where
    W: Future<Output = Result<(), E>> + Send + 'static,
    E: Display + Send,
{
    let (sender, receiver) = mpsc::channel(AHEAD);
    let writing = write(BufWriter::with_capacity(CHUNK, Sending(sender.clone())));
    let file = name.to_owned();
    tokio::spawn(async move {
        if let Err(error) = writing.await {
            tracing::warn!(file, %error, "an archive was not completed");
            let _ = sender.send(Err(io::Error::other(error.to_string()))).await;
        }
    });
    let body = stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    let headers = [
        (header::CONTENT_TYPE, mime.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, Body::from_stream(body)).into_response()
}

/// The refusal of an archive for which there is no room.
pub(crate) fn too_many() -> ApiError {
    let message = "an export of this user is under way, or too many of others: try again later";
    let refused = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_exports", message);
    ApiError { retry: Some(Duration::from_secs(5)), ..refused }
}

/// Writes to a response, on a thread that may block. Fails when the client is gone.
pub(crate) struct Sending(mpsc::Sender<io::Result<Bytes>>);

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client is gone"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
