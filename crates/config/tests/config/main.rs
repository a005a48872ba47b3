//! The configuration as others use it: through what the crate makes public.
#![expect(clippy::unwrap_used, reason = "what fails here is the test")]

mod case;
mod documents;
mod earlier;
mod edit;
mod import;
mod precedence;
mod problems;
mod schema;
mod secrets;
mod servers;
