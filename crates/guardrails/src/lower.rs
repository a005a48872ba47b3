//! From the syntax trees of the parsers to [`crate::program`].

pub(crate) mod python;
pub(crate) mod typescript;
