use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A Python, told apart from others: packages are made for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonInterpreter {
    /// The program, without symbolic links.
    pub path: PathBuf,
    /// For example `3.11.7`.
    pub version: String,
    /// What its extension modules end with: those of another ending are not for it.
    pub abi: String,
    /// Bytes of the program; with the next, to see that it is still the same without starting it.
    pub bytes: u64,
    /// When the program was last changed, in seconds since 1970.
    pub modified: i64,
}
