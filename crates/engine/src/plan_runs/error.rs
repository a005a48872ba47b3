use coracle_audit::AuditError;
use coracle_store::StoreError;
use coracle_types::PlanState;

/// Why a plan is not run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The user has no such plan.
    #[error("there is no such plan")]
    Missing,
    /// The plan does not wait for approval.
    #[error("the plan cannot be approved: it is {}", state.as_str())]
    NotOpen {
        /// Its state.
        state: PlanState,
    },
    /// Something has changed since the plan was made.
    #[error("the plan was not run, because something has changed since it was made: {}", changes.join("; "))]
    Changed {
        /// What has changed.
        changes: Vec<String>,
    },
    /// The chosen effects cannot be run.
    #[error("these effects cannot be run: {reason}")]
    Selection {
        /// The reason.
        reason: String,
    },
    /// The user's data is being deleted, or the process is stopping.
    #[error("the plan cannot be run now: {reason}")]
    Unavailable {
        /// The reason.
        reason: String,
    },
    /// The approval could not be recorded.
    #[error("the plan was not run, because the approval could not be recorded: {0}")]
    Audit(#[from] AuditError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PlanError {
    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "plan_missing",
            Self::NotOpen { state: PlanState::Expired } => "plan_expired",
            Self::NotOpen { .. } => "plan_not_open",
            Self::Changed { .. } => "plan_changed",
            Self::Selection { .. } => "plan_selection",
            Self::Unavailable { .. } => "plan_unavailable",
            Self::Audit(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    /// How to fix the error.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing => "`coracle plans list` lists the plans".to_owned(),
            Self::NotOpen { .. } | Self::Changed { .. } => "plan again, and approve the new plan".to_owned(),
            Self::Selection { .. } => "choose other effects; an effect needs those whose results it uses".to_owned(),
            Self::Unavailable { .. } => "try again in a moment".to_owned(),
            Self::Audit(error) => error.hint(),
            Self::Store(error) => return error.hint(),
        })
    }
}
