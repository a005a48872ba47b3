//! Which packages a folder has.

use crate::error::{PackageError, at};
use coracle_store::Package;
use coracle_types::single_line;
use std::fs;
use std::path::Path;

/// Names and versions are shown no longer than this.
const MAX_CHARS: usize = 300;

/// Lists the packages in a folder by their `dist-info`.
pub(crate) fn installed(packages: &Path) -> Result<Vec<Package>, PackageError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(packages).map_err(at(packages))?.flatten() {
        if entry.path().extension().is_none_or(|ending| ending != "dist-info") {
            continue;
        }
        let Ok(bytes) = fs::read(entry.path().join("METADATA")) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let field = |name: &str| {
            let header = text.lines().take_while(|line| !line.is_empty());
            let value =
                header.filter_map(|line| line.split_once(':')).find(|(known, _)| known.eq_ignore_ascii_case(name));
            value.map(|(_, value)| single_line(value, MAX_CHARS))
        };
        if let (Some(name), Some(version)) = (field("Name"), field("Version")) {
            found.push(Package { name, version });
        }
    }
    found.sort_by_key(|package| package.name.to_lowercase());
    Ok(found)
}
