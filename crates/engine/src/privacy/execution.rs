//! What an execution returns and reports to a model.

use crate::capture::Output;
use crate::run::Ran;
use crate::verdict::Ending;
use coracle_privacy::{Item, PrivacyError, UserVault};
use coracle_types::{ErrorCode, Event, Execution, Failure};
use std::sync::Arc;

/// Replaces personal data in what an execution returns to a model. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ForModel(pub(crate) Arc<UserVault>);

impl ForModel {
    /// Replaces personal data in the result and in all output, before a part of it is left out: half of an address would
    /// not be found.
    pub(crate) async fn protect_output(&self, mut ran: Ran, output: Output) -> (Ran, Output) {
        let (mut stdout, mut stderr) = output.into_texts();
        let mut items = vec![Item::Text(&mut stdout), Item::Text(&mut stderr)];
        if let Some(result) = &mut ran.result {
            items.push(Item::Json(result));
        }
        let done = self.0.tokenize(&mut items).await;
        drop(items);
        if let Err(error) = done {
            let ran = Ran { result: None, ending: Ending::Refused(unprotected(&error)), ..ran };
            return (ran, Output::default());
        }
        (ran, Output::of_texts(stdout, stderr))
    }

    /// Replaces personal data in everything else.
    pub(crate) async fn protect(&self, execution: &mut Execution) {
        let Execution { failure, warnings, calls, artifacts, output_file, .. } = execution;
        let mut items: Vec<Item<'_>> = Vec::new();
        if let Some(failure) = failure {
            items.push(Item::Text(&mut failure.error));
            items.extend(failure.traceback.iter_mut().map(Item::Text));
            items.extend(failure.hint.iter_mut().map(Item::Text));
        }
        items.extend(warnings.iter_mut().map(Item::Text));
        items.extend(output_file.iter_mut().map(Item::Text));
        for call in calls {
            items.extend([Item::Text(&mut call.server), Item::Text(&mut call.tool)]);
            items.extend(call.code.iter_mut().map(Item::Text));
        }
        for artifact in artifacts {
            items.extend([&mut artifact.name, &mut artifact.path, &mut artifact.uri].map(Item::Text));
        }
        let done = self.0.tokenize(&mut items).await;
        drop(items);
        if let Err(error) = done {
            let Execution { failure, warnings, calls, artifacts, output_file, .. } = execution;
            *failure = Some(unprotected(&error));
            (*warnings, *calls, *artifacts, *output_file) = (Vec::new(), Vec::new(), Vec::new(), None);
            (execution.result, execution.success) = (None, false);
            (execution.output, execution.stdout, execution.stderr) = (Vec::new(), String::new(), String::new());
        }
    }

    /// Replaces personal data in an event. What cannot be searched is not reported.
    pub(crate) async fn protect_event(&self, mut event: Event) -> Option<Event> {
        let mut items: Vec<Item<'_>> = Vec::new();
        match &mut event {
            // Output is searched as a whole, when the code has ended.
            Event::Output { .. } => return None,
            // The session is named as in the result, which keeps it, too.
            Event::Sandbox(_) | Event::Waiting { .. } | Event::Answered { .. } => {}
            Event::CallBegan { server, tool, arguments, .. } => {
                items.extend([server, tool, arguments].map(Item::Text));
            }
            Event::Asked { server, tool, why, arguments, .. } => {
                items.extend([server, tool, why, arguments].map(Item::Text));
            }
            Event::CallEnded { call, .. } => {
                items.extend([Item::Text(&mut call.server), Item::Text(&mut call.tool)]);
                items.extend(call.code.iter_mut().map(Item::Text));
            }
            Event::Artifact(artifact) => {
                items.extend([&mut artifact.name, &mut artifact.path, &mut artifact.uri].map(Item::Text));
            }
        }
        let done = self.0.tokenize(&mut items).await;
        drop(items);
        done.map_err(|error| tracing::warn!(%error, "an event is not reported: its text could not be searched"))
            .ok()?;
        Some(event)
    }
}

/// The failure of an execution whose answer could not be searched for personal data.
pub(crate) fn unprotected(error: &PrivacyError) -> Failure {
    Failure {
        error: format!("the answer is withheld, because personal data in it could not be replaced by tokens: {error}"),
        error_code: ErrorCode::Internal,
        traceback: None,
        hint: error.hint(),
    }
}
