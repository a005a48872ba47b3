use crate::problem::PolicyProblem;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The maximum number of policy files.
pub const MAX_POLICY_FILES: usize = 1_000;
/// The maximum length of a policy file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The ending of policy files in a folder.
const ENDING: &str = "cedar";

/// A file with Cedar policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    /// Its path, for people.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Reads policy files: files, and the files of folders that end in `.cedar`, in the order of their names.
pub fn policy_files(paths: &[PathBuf]) -> Result<Vec<PolicyFile>, PolicyProblem> {
    let mut files = Vec::new();
    for path in paths {
        let failed = |error: &dyn std::fmt::Display| {
            PolicyProblem::new(path.display().to_string(), format!("cannot read the policies: {error}"))
                .hinted("policy.files names Cedar files, or folders with files that end in .cedar")
        };
        if fs::metadata(path).map_err(|error| failed(&error))?.is_dir() {
            let entries = fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let mut names: Vec<PathBuf> =
                entries.map_err(|error| failed(&error))?.iter().map(fs::DirEntry::path).collect();
            names.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
            names.sort();
            for name in names.iter().take(MAX_POLICY_FILES + 1) {
                files.push(read(name)?);
            }
        } else {
            files.push(read(path)?);
        }
        if files.len() > MAX_POLICY_FILES {
            return Err(failed(&format!("there are more than {MAX_POLICY_FILES} files")));
        }
    }
    Ok(files)
}

fn read(path: &Path) -> Result<PolicyFile, PolicyProblem> {
    let origin = path.display().to_string();
    let failed =
        |error: &dyn std::fmt::Display| PolicyProblem::new(&*origin, format!("cannot read the policies: {error}"));
    let mut text = String::new();
    let file = fs::File::open(path).map_err(|error| failed(&error))?;
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(failed(&format!("the file is longer than {MAX_FILE_BYTES} bytes")));
    }
    Ok(PolicyFile { path: origin, text })
}
