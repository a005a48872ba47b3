use std::fmt;

/// Why a person is asked about a call whose tool may be allowed: the code runs for a second time, because the server
/// stopped before it had ended, and the call could repeat an effect of the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The call began before the server stopped, and has no answer.
    Unanswered,
    /// The call was made before the server stopped, but its answer was not kept.
    AnswerNotKept,
    /// The code makes a call that differs from those that it made before the server stopped.
    Differs,
}

impl Doubt {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unanswered => "unanswered",
            Self::AnswerNotKept => "answer_not_kept",
            Self::Differs => "differs",
        }
    }

    /// The stable error code of a call that is not made because of this doubt.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unanswered | Self::AnswerNotKept => "may_have_happened",
            Self::Differs => "may_repeat",
        }
    }

    /// What is known about the call.
    pub(crate) fn fact(self) -> &'static str {
        match self {
            Self::Unanswered => "this call began before the server stopped and may have happened",
            Self::AnswerNotKept => "this call was made before the server stopped, and its answer was too long to keep",
            Self::Differs => {
                "the code runs again after the server stopped, and this call differs from those it made before, one of \
                 which it may repeat"
            }
        }
    }
}

/// Completes the sentence "you are asked because …".
impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: a yes makes {}", self.fact(), if *self == Self::Differs { "it" } else { "it again" })
    }
}
