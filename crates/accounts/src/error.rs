use crate::passwords::{MAX_PASSWORD_BYTES, MIN_PASSWORD_CHARS};
use coracle_audit::AuditError;
use coracle_store::StoreError;
use coracle_types::UserId;
use std::time::Duration;

/// Error of an operation on an account.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The name is not a valid user name.
    #[error(transparent)]
    Name(#[from] coracle_types::IdError),
    /// The name is reserved.
    #[error("the name {0} is reserved")]
    Reserved(UserId),
    /// The name is taken.
    #[error("user {0} already exists")]
    Taken(UserId),
    /// The user does not exist.
    #[error("there is no user {0}")]
    Unknown(UserId),
    /// The user is disabled.
    #[error("user {0} is disabled")]
    Disabled(UserId),
    /// The password is too short.
    #[error("the password is too short: at least {MIN_PASSWORD_CHARS} characters are needed")]
    ShortPassword,
    /// The password is too long.
    #[error("the password is longer than {MAX_PASSWORD_BYTES} bytes")]
    LongPassword,
    /// The key cannot be created.
    #[error("{0}")]
    Key(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change cannot be recorded, and was not made.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The system failed, for example to provide random numbers.
    #[error("{0}")]
    Machine(String),
}

impl AccountError {
    /// Stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name(_) => "invalid_name",
            Self::Reserved(_) => "reserved_name",
            Self::Taken(_) => "user_exists",
            Self::Unknown(_) => "no_such_user",
            Self::Disabled(_) => "user_disabled",
            Self::ShortPassword | Self::LongPassword => "invalid_password",
            Self::Key(_) => "invalid_key",
            Self::Store(error) => error.code(),
            Self::Audit(error) => error.code(),
            Self::Machine(_) => "internal",
        }
    }
}

/// Error of a sign-in. It does not reveal whether the name or the password was wrong.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The name or the password is wrong.
    #[error("the name or the password is wrong")]
    Wrong,
    /// There were too many attempts; the time to wait.
    #[error("too many attempts: try again in {} s", .0.as_secs().max(1))]
    TooMany(Duration),
    /// Too many passwords are being checked.
    #[error("the server is busy with other sign-ins: try again in a moment")]
    Busy,
    /// The account cannot be used.
    #[error(transparent)]
    Account(#[from] AccountError),
}
