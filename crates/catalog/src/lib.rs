//! Which tools exist: their definitions, the code that is generated for them, and what their results look like.
//!
//! Start at [`generate`], which turns definitions into files of Python and TypeScript, and at [`Catalog`], which lists and
//! shows and finds tools and checks arguments. Inside, a schema becomes a `Type` (`schema.rs`, `model.rs`), and that becomes text
//! (`python.rs`, `typescript.rs`).
//!
//! Invariants: every text of a server is hostile. It is capped, stripped of what cannot be seen, and never ends the
//! literal, docstring or comment that it stands in. The same definitions give the same bytes, in whatever order they
//! come. Nothing is fetched. Of results only shapes are kept, made of words of our own.

mod catalog;
mod defaults;
mod json;
mod layout;
mod learned;
mod model;
mod names;
mod python;
mod registry;
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
pub use starter::StarterLanguage;
pub use tree::{ROOT, Tree, generate};
pub use validator::{ArgumentsError, Validator};
pub use write::{Modules, WriteError, remove_trees, write_tree};
