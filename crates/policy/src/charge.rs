use coracle_store::{LimitCharge, Store};
use std::sync::Arc;
use std::time::SystemTime;

/// What a call was charged. It stays charged unless it is given back.
#[derive(Debug)]
pub struct Charge {
    charged: Option<(Arc<dyn Store>, Vec<LimitCharge>, SystemTime)>,
}

impl Charge {
    /// No charge.
    pub fn nothing() -> Self {
        Self { charged: None }
    }

    pub(crate) fn new(store: Arc<dyn Store>, charges: Vec<LimitCharge>, at: SystemTime) -> Self {
        Self { charged: Some((store, charges, at)) }
    }

    /// Gives everything back, because the call did not reach its server.
    pub async fn give_back(self) {
        let Some((store, charges, at)) = self.charged else { return };
        if let Err(error) = store.give_back(&charges, at).await {
            tracing::warn!(%error, "a call that was not made stays charged");
        }
    }
}
