//! Signals that end this program: SIGINT, SIGTERM and SIGHUP.

use crate::status::Status;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(crate) struct Signals([Option<Signal>; 3]);

impl Signals {
    /// Listens for signals. A signal that was ignored at the start stays ignored: shells start background jobs so that
    /// Ctrl-C does not reach them, and `nohup` starts programs that outlive their terminal.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored(&status);
        let heard = |kind: SignalKind| (!is_in(ignored, kind)).then(|| signal(kind)).transpose();
        Ok(Self([heard(SignalKind::interrupt())?, heard(SignalKind::terminate())?, heard(SignalKind::hangup())?]))
    }

    pub(crate) async fn next(&mut self) {
        self.next_is_interrupt().await;
    }

    /// Waits for a signal, and returns whether it is that of Ctrl-C.
    pub(crate) async fn next_is_interrupt(&mut self) -> bool {
        let Self([interrupt, terminate, hangup]) = self;
        tokio::select! {
            () = received(interrupt) => true,
            () = received(terminate) => false,
            () = received(hangup) => false,
        }
    }

    /// Cancels on the first signal and exits on the second. The launcher cleans up in both cases.
    pub(crate) async fn cancel(self, cancel: CancellationToken) {
        self.cancel_and(cancel, || {}).await;
    }

    /// The same, and does something before the exit.
    pub(crate) async fn cancel_and(mut self, cancel: CancellationToken, last: impl FnOnce() + Send) {
        self.next().await;
        cancel.cancel();
        self.next().await;
        last();
        std::process::exit(Status::Cancelled.code().into());
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Mask of the signals that a process ignores: bit N - 1 is signal N.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(mask: u64, kind: SignalKind) -> bool {
    u32::try_from(kind.as_raw_value() - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::{ignored, is_in};
    use tokio::signal::unix::SignalKind;

    #[test]
    fn ignored_signals_are_found() {
        let mask = ignored("Name:\tcoracle\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001002\n");
        let seen = [SignalKind::interrupt(), SignalKind::pipe(), SignalKind::terminate(), SignalKind::hangup()];
        assert_eq!(seen.map(|kind| is_in(mask, kind)), [true, true, false, false]);
        assert_eq!(ignored(""), 0);
    }
}
