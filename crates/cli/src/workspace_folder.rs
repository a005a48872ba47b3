//! A folder that a person has named as the workspace: which ones code is not to get.

use crate::status::Mistake;
use crate::variables;
use std::path::{Path, PathBuf};

/// The option that lets a home folder be a workspace.
pub(crate) const EXPOSE: &str = "--expose-home";

/// Looks at a named folder, and gives it without links. One that is not there is left to whoever opens it.
pub(crate) fn checked(folder: &Path, expose_home: bool) -> anyhow::Result<PathBuf> {
    let Ok(found) = folder.canonicalize() else { return Ok(folder.to_owned()) };
    let data = variables::home()?;
    let data = data.canonicalize().unwrap_or(data);
    if found.starts_with(&data) && !is_own_workspace(&found, &data) {
        let error =
            format!("--workspace {}: this is in Coracle's data folder, which code never sees", folder.display());
        return Err(Mistake::new(error, Some("name a folder for the code, or leave --workspace out")).into());
    }
    let home = std::env::home_dir().map(|home| home.canonicalize().unwrap_or(home));
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let exposed = home.into_iter().chain(homes(&accounts)).find(|home| home.starts_with(&found));
    match exposed {
        Some(home) if !expose_home => {
            let what = if home == found { "is a home folder" } else { "has home folders in it" };
            let error = format!("--workspace {}: this {what}: code could read and change all of it", folder.display());
            let hint = format!("name a folder for the code alone, or add {EXPOSE} if that is what you want");
            Err(Mistake::new(error, Some(hint)).into())
        }
        _ => Ok(found),
    }
}

/// A user's own workspace lies in the data folder, too: `workspaces/<user>/files`.
fn is_own_workspace(folder: &Path, data: &Path) -> bool {
    let Ok(below) = folder.strip_prefix(data.join("workspaces")) else { return false };
    below.components().nth(1).is_some_and(|kind| kind.as_os_str() == "files")
}

/// The home folders of people, and of root, in the text of `/etc/passwd`; services have theirs anywhere.
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
    fn homes_are_those_of_people() {
        let accounts = "root:x:0:0:root:/:/bin/bash\ndaemon:x:1:1::/usr:/bin/false\nann:x:1000:1000::/tmp:/bin/sh\n\
            bob:x:1001:1001::/nonexistent:/bin/sh\nnobody:x:65534:65534::/usr:/bin/false\nhalf:x:1002\n";
        assert_eq!(homes(accounts).collect::<Vec<_>>(), [PathBuf::from("/"), PathBuf::from("/tmp")]);
    }

    #[test]
    fn of_the_data_folder_only_files_of_users_are_workspaces() {
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
