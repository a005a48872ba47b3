use coracle_types::{Scope, UserId};
use std::fmt;

/// The owner of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// All users: the data of a shared server.
    Shared,
    /// One user.
    User(UserId),
}

impl Owner {
    /// The owner of data when `user` uses a server of this scope.
    pub fn of(scope: Scope, user: &UserId) -> Self {
        match scope {
            Scope::Shared => Self::Shared,
            Scope::User => Self::User(user.clone()),
        }
    }
}

/// The form in rows. A user named `shared` is distinct, because IDs contain no colon.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.write_str("shared"),
            Self::User(user) => write!(f, "user:{user}"),
        }
    }
}
