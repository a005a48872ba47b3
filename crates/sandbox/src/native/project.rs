//! Hard quotas of workspaces, where the file system has project quotas and we are root: ext4 and XFS can have them.
//!
//! The tools of the system set them, and what they came to is found by trying: a folder with a quota says of itself that it
//! is no larger. If anything about it is not as it should be, the watch alone holds the limit, and that is said. It goes on
//! watching in any case: what code meets first ends it.

use coracle_types::{Limits, Mechanism};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Projects that are ours begin with these bits; the rest is the number of the folder's inode.
const OURS: u32 = 0x4000_0000;
/// A tool that takes longer is given up.
const WITHIN: Duration = Duration::from_secs(20);

/// What is known of each workspace.
#[derive(Debug, Default)]
pub(super) struct Projects {
    known: Mutex<HashMap<PathBuf, (Wanted, Mechanism)>>,
}

/// What a workspace may hold.
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
    /// By what means the limit of this workspace holds; sets a quota the first time, if that can be done.
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

/// Whether a quota holds now.
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
        // Somebody else's arrangement.
        other => return Err(format!("it belongs to project {other:?} already")),
    }
    let (blocks, files) = (wanted.kilobytes.to_string(), wanted.files.to_string());
    run("setquota", &["-P", &id.to_string(), "0", &blocks, "0", &files, &mount]).await?;
    let stat = rustix::fs::statfs(workspace).map_err(|errno| errno.to_string())?;
    let seen = stat.f_blocks.saturating_mul(stat.f_bsize.unsigned_abs());
    // In whole blocks.
    Ok(seen > 0 && seen <= wanted.kilobytes.saturating_mul(1_024) + stat.f_bsize.unsigned_abs())
}

/// Where the file system with this device is mounted, if it has project quotas.
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

/// What `lsattr -pd` says of a folder: its project comes first.
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

    /// Whatever this machine has: the means that is told is one that holds.
    #[tokio::test]
    async fn without_quotas_the_watch_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { workspace_mb: 10, ..Limits::default() };
        let told = Projects::default().hold(folder.path(), &limits).await;
        let stat = rustix::fs::statfs(folder.path()).unwrap();
        let is_small = stat.f_blocks * stat.f_bsize.unsigned_abs() <= 10_000_000 + 4_096;
        assert_eq!(told == Mechanism::Quota, is_small, "{told:?}");
    }
}
