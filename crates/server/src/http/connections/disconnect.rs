//! Detection of disconnected clients.

use crate::gone::Gone;
use crate::http::sessions::InUse;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio_util::sync::DropGuard;

/// Guard that reports the client as disconnected when dropped.
pub(crate) struct GoneGuard(DropGuard);

impl GoneGuard {
    pub(crate) fn of(gone: &Gone) -> Self {
        Self(gone.0.clone().drop_guard())
    }

    /// Ties the guard to the body of the response.
    pub(crate) fn around<B: Body<Data = Bytes> + Send + 'static>(self, body: B, in_use: Option<InUse>) -> Watched<B> {
        Watched { body: Box::pin(body), _guard: self.0, _in_use: in_use }
    }
}

/// Response body that reports the client as disconnected when dropped.
pub(crate) struct Watched<B> {
    body: Pin<Box<B>>,
    _guard: DropGuard,
    _in_use: Option<InUse>,
}

impl<B: Body<Data = Bytes>> Body for Watched<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.body.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
