//! Programs that the tests need, and their installation.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// A program, its Debian package, and what is not tested without it.
struct Need {
    program: &'static str,
    package: &'static str,
    without: &'static str,
    is_good: fn(&Path) -> bool,
}

const NEEDS: &[Need] = &[
    Need {
        program: "python3",
        package: "python3",
        without: "everything that runs Python in a sandbox",
        is_good: is_python_3_10,
    },
    Need {
        program: "setpriv",
        package: "util-linux",
        without: "the tests that drop from root to an ordinary user",
        is_good: |_| true,
    },
    Need {
        program: "python3",
        package: "python3-venv",
        without: "everything that talks to MCP servers written in Python",
        is_good: has_ensurepip,
    },
    Need {
        program: "node",
        package: "nodejs",
        without: "everything that talks to MCP servers from npm",
        is_good: |_| true,
    },
    Need {
        program: "npm",
        package: "npm",
        without: "everything that talks to MCP servers from npm",
        is_good: |_| true,
    },
    Need { program: "chromium", package: "chromium", without: "the web page in a browser", is_good: |_| true },
    Need { program: "strip", package: "binutils", without: "the tests of packages", is_good: |_| true },
    Need { program: "dpkg", package: "dpkg", without: "the test of the Debian package", is_good: |_| true },
    Need { program: "git", package: "git", without: "calls to the MCP server for git", is_good: |_| true },
    Need { program: "tmux", package: "tmux", without: "questions to a person at a terminal", is_good: |_| true },
    Need { program: "dockerd", package: "docker.io", without: "the Docker backend", is_good: |_| true },
    Need { program: "runsc", package: "runsc", without: "the Docker backend with gVisor", is_good: |_| true },
    Need { program: "bwrap", package: "bubblewrap", without: "the comparison with bubblewrap", is_good: |_| true },
];

/// Packages that are installed only if `CI` is set: they bring a service of the machine with them.
const ONLY_IN_CI: [&str; 2] = ["docker.io", "runsc"];

/// Installs missing programs if possible. What cannot be tested without those that are still missing is added to
/// `skipped`; it is an error if `CI` is set.
pub(crate) fn install(skipped: &mut Vec<String>) -> Result<()> {
    let mut missing = missing();
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    let packages: Vec<_> =
        missing.iter().map(|need| need.package).filter(|package| is_ci || !ONLY_IN_CI.contains(package)).collect();
    if !packages.is_empty() && may_install() {
        eprintln!("installing {}", packages.join(", "));
        if let Err(error) = apt_get(&["update"])
            .and_then(|()| apt_get(&[&["install", "--yes", "--no-install-recommends"], packages.as_slice()].concat()))
        {
            eprintln!("{error:#}");
        }
        missing = self::missing();
    }
    if missing.is_empty() {
        eprintln!("everything is installed");
        return Ok(());
    }
    skipped.extend(
        missing
            .iter()
            .map(|need| format!("{}: `{}` is missing (Debian package `{}`)", need.without, need.program, need.package)),
    );
    for line in &*skipped {
        eprintln!("skipped: {line}");
    }
    if is_ci {
        bail!("with CI set, nothing may be skipped");
    }
    Ok(())
}

fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !is_met(need)).collect()
}

fn is_met(need: &Need) -> bool {
    found(need.program, need.is_good).is_some()
}

/// Finds a `python3` that every user can run and that can create environments.
pub(crate) fn python_with_venv() -> Option<PathBuf> {
    found("python3", has_ensurepip)
}

/// A program that every user can run.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    found(name, |_| true)
}

fn found(program: &str, is_good: fn(&Path) -> bool) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/bin".into(), "/usr/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|program| is_for_everyone(program) && is_good(program))
}

/// Whether an ordinary user can run `program`. Tests that start as root drop to such a user, so a program in root's
/// home counts as missing.
fn is_for_everyone(program: &Path) -> bool {
    let Ok(program) = program.canonicalize() else {
        return false;
    };
    let may_enter = |path: &Path| path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0);
    program.is_file() && program.ancestors().all(|part| may_enter(part) || !is_root())
}

fn is_python_3_10(program: &Path) -> bool {
    Command::new(program)
        .args(["-I", "-c", "import sys; sys.exit(sys.version_info < (3, 10))"])
        .status()
        .is_ok_and(|status| status.success())
}

fn has_ensurepip(program: &Path) -> bool {
    Command::new(program)
        .args(["-I", "-c", "import ensurepip, venv"])
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether Debian packages can be installed.
pub(crate) fn may_install() -> bool {
    is_root() && apt_get_path().is_some()
}

/// Whether this process has the rights of root.
pub(crate) fn is_root() -> bool {
    // The owner of /proc/self is the effective user ID.
    Path::new("/proc/self").metadata().is_ok_and(|metadata| metadata.uid() == 0)
}

fn apt_get_path() -> Option<PathBuf> {
    Some(PathBuf::from("/usr/bin/apt-get")).filter(|path| path.exists())
}

pub(crate) fn apt_get(arguments: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("cannot start apt-get")?;
    if !status.success() {
        bail!("`apt-get {}` failed: {status}", arguments.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn need(program: &'static str, is_good: fn(&Path) -> bool) -> Need {
        Need { program, package: "any", without: "nothing", is_good }
    }

    #[test]
    fn a_program_is_found_by_its_name() {
        assert!(is_met(&need("sh", |_| true)));
        assert!(!is_met(&need("no-such-program", |_| true)));
        assert!(!is_met(&need("sh", |_| false)));
    }

    #[test]
    fn a_folder_is_not_a_program() {
        assert!(is_for_everyone(Path::new("/bin/sh")));
        assert!(!is_for_everyone(Path::new("/bin")));
    }
}
