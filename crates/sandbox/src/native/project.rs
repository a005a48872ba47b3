//! Hard quotas for workspaces, if the file system has project quotas (ext4, XFS) and we are root.
//!
//! The tools of the system set them, and the result is verified: a folder with a quota reports the quota as its size.
//! If anything is not as expected, only the watch enforces the limit, and that is reported. The watch continues in any
//! case, and code is killed by the limit that it reaches first.

use coracle_types::{Limits, Mechanism};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The bits of our project IDs. The rest is the number of the folder's inode.
const OURS: u32 = 0x4000_0000;
/// The time limit for a tool.
const WITHIN: Duration = Duration::from_secs(20);

/// The state of each workspace.
#[derive(Debug, Default)]
pub(super) struct Projects {
    known: Mutex<HashMap<PathBuf, (Wanted, Mechanism)>>,
}

/// The quota of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    kilobytes: u64,
    files: u64,
}

impl Wanted {
    fn of(limits: &Limits) -> Self {
        Self { kilobytes: limits.workspace_mb.saturating_mul(1_000_000) / 1_024, files: limits.workspace_files }
    }
}

impl Projects {
    /// The mechanism that enforces the limit of this workspace. Sets a quota the first time, if possible.
    pub(super) async fn hold(&self, workspace: &Path, limits: &Limits) -> Mechanism {
        let wanted = Wanted::of(limits);
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, mechanism)) = lock().get(workspace)
            && *known == wanted
        {
            return *mechanism;
        }
        let mechanism = match set(workspace, wanted).await {
            Ok(true) => Mechanism::Quota,
            Ok(false) => Mechanism::Watch,
            Err(reason) => {
                tracing::debug!(workspace = %workspace.display(), reason, "no hard quota");
                Mechanism::Watch
            }
        };
        lock().insert(workspace.to_owned(), (wanted, mechanism));
        mechanism
    }
}

/// Sets a quota. Returns whether it is in effect.
async fn set(workspace: &Path, wanted: Wanted) -> Result<bool, String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(false);
    }
    let folder = std::fs::metadata(workspace).map_err(|error| error.to_string())?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    let Some(mount) = quota_mount(&mounts, folder.dev()) else { return Ok(false) };
    let id = u32::try_from(folder.ino()).ok().filter(|inode| *inode < OURS).map(|inode| OURS | inode);
    let id = id.ok_or("the number of its inode is too large for a project")?;
    let path = workspace.to_str().ok_or("its path is not valid UTF-8")?;
    let listed = run("lsattr", &["-pd", path]).await?;
    match project(&listed) {
        Some(0) => {
            run("chattr", &["-R", "-p", &id.to_string(), "+P", path]).await?;
        }
        Some(known) if known == id => {}
        // Another administrator has set this up.
        other => return Err(format!("it belongs to project {other:?} already")),
    }
    let (blocks, files) = (wanted.kilobytes.to_string(), wanted.files.to_string());
    run("setquota", &["-P", &id.to_string(), "0", &blocks, "0", &files, &mount]).await?;
    let stat = rustix::fs::statfs(workspace).map_err(|errno| errno.to_string())?;
    let seen = stat.f_blocks.saturating_mul(stat.f_bsize.unsigned_abs());
    // Sizes are rounded to whole blocks.
    Ok(seen > 0 && seen <= wanted.kilobytes.saturating_mul(1_024) + stat.f_bsize.unsigned_abs())
}

/// The mount point of the file system with this device, if it has project quotas.
fn quota_mount(mounts: &str, device: u64) -> Option<String> {
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    mounts.lines().find_map(|line| {
        let (own, shared) = line.split_once(" - ")?;
        let mut own = own.split(' ');
        let is_it = own.nth(2) == Some(&device) && own.next() == Some("/");
        let point = own.next()?;
        let options = shared.split(' ').nth(2)?;
        let has = options.split(',').any(|option| matches!(option, "prjquota" | "pquota"));
        (is_it && has && !point.contains('\\')).then(|| point.to_owned())
    })
}

/// Parses the output of `lsattr -pd`: the project comes first.
fn project(listed: &str) -> Option<u32> {
    listed.split_whitespace().next()?.parse().ok()
}

async fn run(program: &'static str, arguments: &[&str]) -> Result<String, String> {
    let mut command = std::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let ended = tokio::task::spawn_blocking(move || command.output());
    let output = tokio::time::timeout(WITHIN, ended).await.map_err(|_| format!("{program} takes too long"))?;
    let output = output.map_err(|error| error.to_string())?.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).chars().take(300).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::{Projects, Wanted, project, quota_mount};
    use coracle_types::{Limits, Mechanism};

    const MOUNTS: &str = "\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
36 21 254:16 /sub /srv/part rw - ext4 /dev/vdb rw,prjquota
37 21 254:16 / /srv/data rw,relatime shared:1 - ext4 /dev/vdb rw,prjquota
38 21 254:32 / /srv/x\\040y rw - xfs /dev/vdc rw,attr2,pquota
39 21 254:48 / /srv/user rw - ext4 /dev/vdd rw,usrquota";

    #[test]
    fn quotas_are_set_only_where_the_file_system_has_them() {
        let device = |minor| rustix::fs::makedev(254, minor);
        assert_eq!(quota_mount(MOUNTS, device(0)), None);
        assert_eq!(quota_mount(MOUNTS, device(16)).as_deref(), Some("/srv/data"));
        assert_eq!(quota_mount(MOUNTS, device(32)), None, "a path that would have to be unescaped");
        assert_eq!(quota_mount(MOUNTS, device(48)), None);
        assert_eq!(project("    7 --------------e------- /x\n"), Some(7));
        assert_eq!(project("lsattr: not supported"), None);
        let wanted = Wanted::of(&Limits { workspace_mb: 1_024, workspace_files: 9, ..Limits::default() });
        assert_eq!(wanted, Wanted { kilobytes: 1_000_000, files: 9 });
    }

    /// Whatever this machine supports, the reported mechanism is in effect.
    #[tokio::test]
    async fn without_quotas_the_watch_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { workspace_mb: 10, ..Limits::default() };
        let told = Projects::default().hold(folder.path(), &limits).await;
        let stat = rustix::fs::statfs(folder.path()).unwrap();
        let is_small = stat.f_blocks * stat.f_bsize.unsigned_abs() <= 10_000_000 + 4_096;
        assert_eq!(told == Mechanism::Quota, is_small, "{told:?}");
    }
}
