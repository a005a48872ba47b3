//! A guest that sends requests, and its connection to the host of the last one.

use std::io;
use std::sync::Arc;

use http::Method;

use crate::access::Access;
use crate::decide::Refusal;
use crate::guest::Guest;
use crate::head::{Framing, Head};
use crate::reply::{self, After};
use crate::upstream::Connection;

/// A guest that sends requests.
pub(crate) struct Client {
    pub(crate) access: Arc<Access>,
    pub(crate) guest: Guest,
    /// The connection that served the last request, for the next one.
    pub(crate) upstream: Option<Connection>,
}

impl Client {
    /// Answers a request that has not been sent, and whose body has not been read.
    pub(crate) async fn refuse(&mut self, head: &Head, refusal: &Refusal) -> io::Result<After> {
        self.access.refused(refusal);
        let after = if head.framing == Framing::Empty { self.after(head) } else { After::Close };
        reply::refuse(&mut self.guest.writer, refusal, after, head.method != Method::HEAD).await?;
        Ok(after)
    }

    /// Whether the connection may be kept after this request.
    pub(crate) fn after(&self, head: &Head) -> After {
        if head.wants_close() || !self.access.has_places() { After::Close } else { After::Keep }
    }
}
