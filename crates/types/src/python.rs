use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Identifies a Python interpreter. Packages are built for one interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonInterpreter {
    /// The path of the program, with symbolic links resolved.
    pub path: PathBuf,
    /// For example `3.11.7`.
    pub version: String,
    /// The suffix of extension modules for this interpreter.
    pub abi: String,
    /// Size of the program in bytes. Together with `modified`, shows that the program is unchanged without starting it.
    pub bytes: u64,
    /// When the program was last modified, in seconds since 1970.
    pub modified: i64,
}
