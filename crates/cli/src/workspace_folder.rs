//! Checks of a folder that is named as the workspace.

use crate::status::Mistake;
use crate::variables;
use std::path::{Path, PathBuf};

/// Option that allows a home folder as the workspace.
pub(crate) const EXPOSE: &str = "--expose-home";

/// Checks a folder and resolves its links. A missing folder is reported when it is opened.
pub(crate) fn checked(folder: &Path, expose_home: bool) -> anyhow::Result<PathBuf> {
    let Ok(found) = folder.canonicalize() else { return Ok(folder.to_owned()) };
    let data = variables::home()?;
    let data = data.canonicalize().unwrap_or(data);
    if found.starts_with(&data) && !is_own_workspace(&found, &data) {
        let error = format!(
            "--workspace {}: this is in Coracle's data folder, which is never exposed to code",
            folder.display()
        );
        return Err(Mistake::new(error, Some("use another folder, or omit --workspace")).into());
    }
    let home = std::env::home_dir().map(|home| home.canonicalize().unwrap_or(home));
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let exposed = home.into_iter().chain(homes(&accounts)).find(|home| home.starts_with(&found));
    match exposed {
        Some(home) if !expose_home => {
            let what = if home == found { "is a home folder" } else { "contains home folders" };
            let error = format!("--workspace {}: this {what}: code could read and change all of it", folder.display());
            let hint = format!("use a folder for the code only, or add {EXPOSE} to allow this");
            Err(Mistake::new(error, Some(hint)).into())
        }
        _ => Ok(found),
    }
}

/// Whether a folder is a user's own workspace, which is also in the data folder: `workspaces/<user>/files`.
fn is_own_workspace(folder: &Path, data: &Path) -> bool {
    let Ok(below) = folder.strip_prefix(data.join("workspaces")) else { return false };
    below.components().nth(1).is_some_and(|kind| kind.as_os_str() == "files")
}

/// Home folders of users and root in the text of `/etc/passwd`, without those of services.
fn homes(accounts: &str) -> impl Iterator<Item = PathBuf> {
    const PEOPLE: std::ops::Range<u32> = 1_000..60_000;
    accounts.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let id: u32 = fields.next()?.parse().ok()?;
        let home = Path::new(fields.nth(2)?);
        let is_one = (id == 0 || PEOPLE.contains(&id)) && home.is_absolute() && home.is_dir();
        is_one.then(|| home.canonicalize().unwrap_or_else(|_| home.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::{homes, is_own_workspace};
    use std::path::{Path, PathBuf};

    #[test]
    fn homes_of_services_are_ignored() {
        let accounts = "root:x:0:0:root:/:/bin/bash\ndaemon:x:1:1::/usr:/bin/false\nann:x:1000:1000::/tmp:/bin/sh\n\
            bob:x:1001:1001::/nonexistent:/bin/sh\nnobody:x:65534:65534::/usr:/bin/false\nhalf:x:1002\n";
        assert_eq!(homes(accounts).collect::<Vec<_>>(), [PathBuf::from("/"), PathBuf::from("/tmp")]);
    }

    #[test]
    fn only_workspaces_of_the_data_folder_are_accepted() {
        let data = Path::new("/data");
        for (folder, expected) in [
            ("/data", false),
            ("/data/run", false),
            ("/data/workspaces", false),
            ("/data/workspaces/ann", false),
            ("/data/workspaces/ann/artifacts", false),
            ("/data/workspaces/ann/files", true),
            ("/data/workspaces/ann/files/project", true),
        ] {
            assert_eq!(is_own_workspace(Path::new(folder), data), expected, "{folder}");
        }
    }
}
