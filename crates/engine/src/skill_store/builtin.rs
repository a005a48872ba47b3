//! Skills that come with Coracle.

use sha2::{Digest as _, Sha256};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const BUILTIN: [(&str, &str); 3] = [
    ("charts", include_str!("../../skills/charts/SKILL.md")),
    ("data-analysis", include_str!("../../skills/data-analysis/SKILL.md")),
    ("symbolic-math", include_str!("../../skills/symbolic-math/SKILL.md")),
];

/// Name of their folder, which depends on their content.
static FOLDER: LazyLock<String> = LazyLock::new(|| {
    let mut digest = Sha256::new();
    for (name, text) in BUILTIN {
        digest.update(name);
        digest.update([0]);
        digest.update(text);
        digest.update([0]);
    }
    let digest = hex::encode(digest.finalize());
    format!("builtin-{}", digest.get(..16).unwrap_or(&digest))
});

/// Writes them below `cache`, from where they are mounted into sandboxes, and returns the folder. An existing folder is not
/// changed.
pub(super) fn install(cache: &Path) -> io::Result<PathBuf> {
    let folder = cache.join(&*FOLDER);
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(cache)?;
    // Created under another name and renamed, so that the folder is always complete.
    let aside = tempfile::Builder::new().prefix(".making-").tempdir_in(cache)?;
    for (name, text) in BUILTIN {
        let skill = aside.path().join(name);
        fs::create_dir(&skill)?;
        fs::write(skill.join("SKILL.md"), text)?;
        // If Coracle runs as root, sandboxes read these as another user, whatever the umask is.
        fs::set_permissions(skill.join("SKILL.md"), fs::Permissions::from_mode(0o644))?;
        fs::set_permissions(&skill, fs::Permissions::from_mode(0o755))?;
    }
    fs::set_permissions(aside.path(), fs::Permissions::from_mode(0o755))?;
    match fs::rename(aside.path(), &folder) {
        Ok(()) => {
            let _ = aside.keep();
            Ok(folder)
        }
        // Another process was faster.
        Err(_) if folder.is_dir() => Ok(folder),
        Err(error) => Err(error),
    }
}
