//! The catalogue of tools: their definitions, the code that is generated for them, and the shapes of their results.
//!
//! Start at [`generate`], which turns definitions into Python and TypeScript files, and at [`Catalog`], which lists,
//! renders and finds tools and checks arguments. Internally, a schema becomes a `Type` (`schema.rs`, `model.rs`), which
//! becomes source text (`python.rs`, `typescript.rs`).
//!
//! Invariants: every text from a server is untrusted. It is capped, stripped of invisible characters, and never
//! terminates the literal, docstring or comment that contains it. The same definitions produce the same bytes, in any
//! order. Nothing is downloaded. Of results, only shapes are kept, which consist of our own words.

mod catalog;
mod defaults;
mod layout;
mod learned;
mod model;
mod names;
mod python;
mod registry;
mod sample;
mod schema;
mod starter;
mod stub;
mod text;
mod tree;
mod typescript;
mod validator;
mod write;

pub use catalog::{
    Catalog, Category, Direction, Entry, Filter, Foreign, Group, Hit, Level, MAX_DIMENSIONS, Query, UnknownLevel,
    Unread, Uses,
};
pub use layout::{CodeName, MAX_TOOL_NAME, MAX_TOOLS, ServerTools, WRAPPED, server_names, tool_names, wrapped_result};
pub use learned::Shape;
pub use names::package_name;
pub use registry::{Registry, RegistryEntry, RegistryWords};
pub use sample::{Leaf, sample};
pub use starter::StarterLanguage;
pub use tree::{ROOT, Tree, generate};
pub use validator::{ArgumentsError, Validator};
pub use write::{Modules, WriteError, remove_trees, write_tree};
