//! Users and their credentials, on top of the store: for the server, and for `coracle users`.
//!
//! Start at [`People`]: one method for each thing that can be done with an account. `names.rs` normalizes user names
//! from every source, `passwords.rs` hashes passwords on separate threads, a few at a time, `attempts.rs` throttles
//! guessing by name and by address, and `credentials.rs` makes tokens and API keys.
//!
//! Invariants: only digests of tokens and hashes of passwords are stored. A failed sign-in does not reveal whether the
//! name or the password was wrong, neither by its error nor by its duration. All spellings of a user name are one name.
//! Nobody signs in as the local user.

mod attempts;
mod credentials;
mod error;
mod names;
mod passwords;
mod people;
mod trail;

pub use credentials::{is_good, is_key, random_token};
pub use error::{AccountError, SignInError};
pub use names::{NameSource, is_local_user, is_reserved, new_user_name, user_name};
pub use passwords::MIN_PASSWORD_CHARS;
pub use people::{KeyMaker, LINK_LIFETIME, People, may_sign_in};
