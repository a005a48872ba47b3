//! Gates: places in a turn where the server waits for a test.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// Maximum number of gates that can be open or have been reached. Further names are ignored.
pub const MAX_GATES: usize = 10_000;

/// The gates of a server. Clones are the same gates.
#[derive(Clone, Debug)]
pub struct Gates {
    open: watch::Sender<BTreeSet<String>>,
    reached: watch::Sender<BTreeSet<String>>,
}

impl Default for Gates {
    fn default() -> Self {
        Self { open: watch::Sender::new(BTreeSet::new()), reached: watch::Sender::new(BTreeSet::new()) }
    }
}

impl Gates {
    /// Opens a gate for all requests that wait there, and for later ones.
    pub fn open(&self, name: &str) {
        add(&self.open, name);
    }

    /// Closes a gate again, and forgets that it was reached.
    pub fn close(&self, name: &str) {
        for names in [&self.open, &self.reached] {
            names.send_modify(|names| {
                names.remove(name);
            });
        }
    }

    /// Waits until a request has reached the gate.
    pub async fn reached(&self, name: &str) {
        until(&self.reached, name).await;
    }

    /// Waits until the gate is open.
    pub(crate) async fn pass(&self, name: &str) {
        add(&self.reached, name);
        until(&self.open, name).await;
    }
}

fn add(names: &watch::Sender<BTreeSet<String>>, name: &str) {
    names.send_modify(|names| {
        if names.len() < MAX_GATES {
            names.insert(name.to_owned());
        }
    });
}

async fn until(names: &watch::Sender<BTreeSet<String>>, name: &str) {
    // The channel is not closed, because its sender is borrowed.
    let _ = names.subscribe().wait_for(|names| names.contains(name)).await;
}
