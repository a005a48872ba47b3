use rmcp::model::Tool;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Tools some of whose arguments are to be headers of HTTP as well, as they were last listed. What comes over HTTP is
/// compared with these before anything else looks at it.
#[derive(Clone, Default)]
pub(crate) struct Headed(Arc<RwLock<HashMap<String, Tool>>>);

impl Headed {
    pub(crate) fn replace(&self, tools: HashMap<String, Tool>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    pub(crate) fn get(&self, name: &str) -> Option<Tool> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}
