//! Which packages a folder has.

use crate::output::plain;
use anyhow::Context;
use coracle_store::Package;
use std::fs;
use std::path::Path;

/// Names and versions are shown no longer than this.
const MAX_CHARS: usize = 300;

/// Lists the packages in a folder by their `dist-info`.
pub(super) fn installed(packages: &Path) -> anyhow::Result<Vec<Package>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(packages).with_context(|| packages.display().to_string())?.flatten() {
        if entry.path().extension().is_none_or(|ending| ending != "dist-info") {
            continue;
        }
        let Ok(bytes) = fs::read(entry.path().join("METADATA")) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let field = |name: &str| {
            let header = text.lines().take_while(|line| !line.is_empty());
            let value =
                header.filter_map(|line| line.split_once(':')).find(|(known, _)| known.eq_ignore_ascii_case(name));
            value.map(|(_, value)| plain(value, MAX_CHARS))
        };
        if let (Some(name), Some(version)) = (field("Name"), field("Version")) {
            found.push(Package { name, version });
        }
    }
    found.sort_by_key(|package| package.name.to_lowercase());
    Ok(found)
}
