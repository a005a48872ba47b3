//! Where an answer goes while it is played.

use std::io;

use bytes::Bytes;
use tokio::sync::mpsc::Sender;

use crate::output::{Beat, Encoder, Output};
use crate::script::{Raw, Repeat};

/// The size from which repeated pieces are sent on. Sending each of a million pieces by itself would take minutes.
const BATCH_BYTES: usize = 16 * 1024;

/// Where the answer goes.
pub(crate) enum Stage {
    /// A body that is sent while it is played.
    Stream { encoder: Box<dyn Encoder>, body: Sender<Result<Bytes, io::Error>>, batch: Option<Vec<u8>> },
    /// A body that consists of the raw bytes only.
    RawOnly { body: Sender<Result<Bytes, io::Error>> },
    /// An answer that is collected.
    Whole(Output),
}

/// Why an answer has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The script breaks the connection.
    ByScript,
    /// The client has disconnected.
    ByClient,
}

impl Stage {
    pub(super) async fn beat(&mut self, beat: Beat) -> Result<(), Broken> {
        match self {
            Self::Stream { encoder, batch, .. } => {
                let bytes = encoder.beat(&beat);
                match batch {
                    Some(batch) => {
                        batch.extend(bytes);
                        if batch.len() < BATCH_BYTES {
                            return Ok(());
                        }
                        let full = std::mem::take(batch);
                        self.send(full).await
                    }
                    None => self.send(bytes).await,
                }
            }
            Self::RawOnly { .. } => Ok(()),
            Self::Whole(output) => {
                output.apply(&beat);
                Ok(())
            }
        }
    }

    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), Broken> {
        match self {
            Self::Stream { body, .. } | Self::RawOnly { body } if !bytes.is_empty() => {
                body.send(Ok(bytes.into())).await.map_err(|_| Broken::ByClient)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn start_batch(&mut self) {
        if let Self::Stream { batch, .. } = self {
            *batch = Some(Vec::new());
        }
    }

    pub(super) async fn end_batch(&mut self) -> Result<(), Broken> {
        match self {
            Self::Stream { batch, .. } => {
                let rest = batch.take().unwrap_or_default();
                self.send(rest).await
            }
            _ => Ok(()),
        }
    }

    /// Sends bytes as they are.
    pub(crate) async fn raw(&mut self, raw: &Raw) -> Result<(), Broken> {
        self.send(raw.text.clone().into_bytes()).await?;
        if let Some(Repeat { piece, times }) = &raw.repeat {
            let per_batch = (BATCH_BYTES / piece.len().max(1)).max(1) as u64;
            let mut left = *times;
            while left > 0 {
                let count = left.min(per_batch);
                self.send(piece.repeat(count as usize).into_bytes()).await?;
                left -= count;
            }
        }
        if let Some(piece) = raw.endless.as_ref().filter(|piece| !piece.is_empty()) {
            let batch = piece.repeat((BATCH_BYTES / piece.len()).max(1));
            loop {
                self.send(batch.clone().into_bytes()).await?;
            }
        }
        Ok(())
    }

    /// Sends what comes before all events.
    pub(super) async fn begin(&mut self) -> Result<(), Broken> {
        match self {
            Self::Stream { encoder, .. } => {
                let bytes = encoder.begin();
                self.send(bytes).await
            }
            _ => Ok(()),
        }
    }
}
