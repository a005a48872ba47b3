//! Requests that want more calls to be approved than the policy does.

use async_trait::async_trait;
use coracle_policy::{Answer, Approver, Question};
use coracle_runs::AlwaysAsk;
use coracle_types::Tool;
use std::sync::Arc;

/// Asks about each call of some tools.
#[derive(Debug)]
pub(crate) struct StrictApprover {
    tools: Vec<AlwaysAsk>,
    other: Arc<dyn Approver>,
}

impl StrictApprover {
    /// The same approver, which is asked about each call of these tools.
    pub(crate) fn around(other: Arc<dyn Approver>, tools: &[AlwaysAsk]) -> Arc<dyn Approver> {
        if tools.is_empty() { other } else { Arc::new(Self { tools: tools.to_vec(), other }) }
    }
}

#[async_trait]
impl Approver for StrictApprover {
    async fn ask(&self, question: Question) -> Answer {
        self.other.ask(question).await
    }

    fn answered_before(&self, question: &Question) -> Option<Answer> {
        self.other.answered_before(question)
    }

    fn origin(&self) -> Option<String> {
        self.other.origin()
    }

    fn wants_each_call(&self, tool: &Tool) -> bool {
        let names = |asked: &AlwaysAsk| asked.tools.as_ref().is_none_or(|names| names.contains(&tool.name));
        self.tools.iter().any(|asked| asked.server == tool.server.as_str() && names(asked))
    }
}
