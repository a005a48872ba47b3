use coracle_types::{Scope, UserId};
use std::fmt;

/// Whose row it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// Everybody's: what a shared server gave.
    Shared,
    /// One user's.
    User(UserId),
}

impl Owner {
    /// Whose it is when `user` works with a server of this scope.
    pub fn of(scope: Scope, user: &UserId) -> Self {
        match scope {
            Scope::Shared => Self::Shared,
            Scope::User => Self::User(user.clone()),
        }
    }
}

/// The form that rows hold. A user called `shared` stays apart, since no id holds a colon.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.write_str("shared"),
            Self::User(user) => write!(f, "user:{user}"),
        }
    }
}
