//! Finds personal data and secrets in text and in JSON, and replaces them by tokens that only the vault of their user can
//! turn back.
//!
//! Start at [`Detector`]: it returns one [`Finding`] for each piece of personal data in a text. [`Scanner`] does the
//! same for a text that arrives in pieces. `scan.rs` is the pass over a text, and each file in `scan/` knows the kinds
//! that look alike. `windows.rs` is for what needs more context, `evidence.rs` knows what keys of JSON say, and
//! `resolve.rs` decides which of several findings is kept.
//!
//! [`Vaults`] has the vault of each user: [`UserVault::tokenize`] replaces personal data in [`Item`]s by tokens, and
//! [`UserVault::restore`] is the inverse. `token.rs` is the form of tokens, `known.rs` finds again what was found once.
//!
//! Invariants: time is linear in the length of the text, whatever the text is. Findings are in order and do not overlap.
//! No error and no `Debug` output contains the text that was searched. A token that has been returned is on the disk. A
//! token is restored only for the user in whose vault it is; text that merely looks like one stays as it is.

mod cache;
mod custom;
mod detector;
mod document;
mod error;
mod evidence;
mod finding;
mod item;
mod kinds;
mod known;
mod names;
mod recent;
mod replaced;
mod resolve;
mod restoring;
mod scan;
mod scanner;
mod settings;
mod table;
mod token;
mod tokenizing;
mod vault;
mod vaults;
mod windows;

pub use detector::Detector;
pub use error::PrivacyError;
pub use finding::{Confidence, Finding};
pub use item::Item;
pub use kinds::{Kind, KindInfo};
pub use names::NameFinder;
pub use replaced::Replaced;
pub use restoring::tokens_in;
pub use scan::countries as national_id_countries;
pub use scanner::Scanner;
pub use settings::{CustomPattern, DEFAULT_CONFIDENCE, DetectorError, DetectorSettings, Matcher};
pub use token::{label as label_of_token, label_of as token_label};
pub use vault::UserVault;
pub use vaults::Vaults;
