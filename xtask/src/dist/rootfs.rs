//! The root file system of the container image, from Debian packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::contents::printed;
use crate::needs;

/// What sandboxes need, and the certificates for MCP servers and models on the Internet.
const PACKAGES: &str = "python3,bash,ca-certificates";

/// What a server never reads. Licences stay.
const EXCLUDED: &[&str] = &["/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*"];

/// A system that is laid out in today's way from the start. Without it, packages for the change come in, and with them all
/// of Perl.
const LAYOUT: &str = "/usr/share/mmdebstrap/hooks/merged-usr";

/// The package sources and the name of the machine that makes the image do not belong into it.
const CLEAN: &str = r#"cd "$1"/etc && rm -rf apt/sources.list apt/sources.list.d hostname resolv.conf"#;

/// The user that the server runs as, in a database without the tools to change it.
const ADD_USER: &str = r#"echo 'coracle:x:1000:1000:Coracle:/data:/usr/sbin/nologin' >> "$1"/etc/passwd; echo 'coracle:x:1000:' >> "$1"/etc/group"#;

/// Makes a tar archive in `folder` with Debian's smallest set of packages and what Coracle needs. It comes from the
/// same package sources as those of this machine.
pub(super) fn make(stamp: u64, folder: &Path) -> Result<PathBuf> {
    let program = mmdebstrap()?;
    let suite =
        suite().context("the image is made on Debian, from its own packages: /etc/os-release names no suite")?;
    let archive = folder.join("rootfs.tar");
    let mut command = Command::new(program);
    command.args(["--variant=essential", "--quiet"]);
    command.args([format!("--include={PACKAGES}"), format!("--hook-dir={LAYOUT}")]);
    for path in EXCLUDED {
        command.arg(format!("--dpkgopt=path-exclude={path}"));
    }
    command
        .arg("--dpkgopt=path-include=/usr/share/doc/*/copyright")
        .args([format!("--customize-hook={ADD_USER}"), format!("--customize-hook={CLEAN}")])
        .arg(suite)
        .arg(&archive)
        .args(sources()?)
        .env("SOURCE_DATE_EPOCH", stamp.to_string());
    printed(&mut command)?;
    Ok(archive)
}

fn mmdebstrap() -> Result<PathBuf> {
    if let Some(program) = needs::program("mmdebstrap") {
        return Ok(program);
    }
    if needs::may_install() {
        needs::apt_get(&["update"])?;
        needs::apt_get(&["install", "--yes", "--no-install-recommends", "mmdebstrap"])?;
    }
    needs::program("mmdebstrap").context(
        "the image needs mmdebstrap\n  hint: install that Debian package, or leave the image out with --only tarball,wheel,npm,deb",
    )
}

fn suite() -> Option<String> {
    let text = std::fs::read_to_string("/etc/os-release").ok()?;
    let value = |name: &str| {
        text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.trim_matches('"').to_owned()))
    };
    value("VERSION_CODENAME").filter(|_| value("ID").as_deref() == Some("debian"))
}

/// The files in which this machine names its package sources.
fn sources() -> Result<Vec<PathBuf>> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let folder = Path::new("/etc/apt/sources.list.d");
    if let Ok(entries) = folder.read_dir() {
        for entry in entries {
            files.push(entry.context("cannot list /etc/apt/sources.list.d")?.path());
        }
    }
    files.retain(|file| {
        file.is_file() && file.extension().is_some_and(|ending| ending == "list" || ending == "sources")
    });
    files.sort();
    Ok(files)
}
