//! Tools as a catalog presents them: generated code, listings, and checks of arguments.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod arguments;
mod checkers;
mod definitions;
mod files;
mod fixtures;
mod generated;
mod learned;
mod listing;
mod syntax;
