//! Third-party MCP servers for the tests, and packages for code in sandboxes, in pinned versions below the target
//! folder.
//!
//! `xtask/test-servers/` has the pins. An environment is rebuilt when its pins have changed. `mypy` and `tsc`, which
//! check generated code, are included.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::metadata::{Metadata, Resolve, repository};
use crate::needs;

/// Environment variable with the folder of the servers.
pub(crate) const FOLDER: &str = "CORACLE_TEST_SERVERS";

/// Number of attempts, because registries sometimes fail, with a growing pause in between.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// File with the pins that an environment was built from; written last.
const STAMP: &str = "coracle-pins";

/// An environment: its folder, the files with its pins, and how to build it.
struct Environment {
    name: &'static str,
    pins: &'static [&'static str],
    make: fn(pins: &Path, folder: &Path) -> Result<()>,
}

const ENVIRONMENTS: &[Environment] = &[
    Environment { name: "npm", pins: &["package.json", "package-lock.json"], make: make_npm },
    // Clients of Coracle, and a server from 2024. The inspector's page and its bundler are not included: their pins
    // differ between systems, which `npm ci` does not support.
    Environment {
        name: "npm-clients",
        pins: &["clients/package.json", "clients/package-lock.json"],
        make: |pins, folder| make_npm(&pins.join("clients"), folder),
    },
    // The official conformance suite in two versions, and a Node that is new enough for it: the package that `node`
    // would download when installed.
    Environment {
        name: "npm-conformance",
        pins: &["conformance/package.json", "conformance/package-lock.json"],
        make: |pins, folder| make_npm(&pins.join("conformance"), folder),
    },
    // An OpenID provider.
    Environment {
        name: "npm-oidc",
        pins: &["oidc/package.json", "oidc/package-lock.json"],
        make: |pins, folder| make_npm(&pins.join("oidc"), folder),
    },
    // A driver of browsers, and a checker of accessibility. The browser is a Debian package.
    Environment {
        name: "npm-page",
        pins: &["page/package.json", "page/package-lock.json"],
        make: |pins, folder| make_npm(&pins.join("page"), folder),
    },
    Environment {
        name: "venv",
        pins: &["requirements.txt"],
        make: |pins, folder| make_venv(&pins.join("requirements.txt"), folder),
    },
    // Its server needs another major version of `mcp`.
    Environment {
        name: "venv-sqlite",
        pins: &["requirements-sqlite.txt"],
        make: |pins, folder| make_venv(&pins.join("requirements-sqlite.txt"), folder),
    },
    // Not a server: a tester of the HTTP API against its document, and `uv`.
    Environment {
        name: "venv-api",
        pins: &["requirements-api.txt"],
        make: |pins, folder| make_venv(&pins.join("requirements-api.txt"), folder),
    },
    // Not servers: clients of OpenAI's API. They run in the Node of `npm-conformance`.
    Environment {
        name: "npm-openai",
        pins: &["openai/package.json", "openai/package-lock.json"],
        make: |pins, folder| make_npm(&pins.join("openai"), folder),
    },
    // The same in Python, with the types of all answers. Packages that they only need for other providers are left out.
    Environment {
        name: "venv-openai",
        pins: &["requirements-openai.txt"],
        make: |pins, folder| make_venv(&pins.join("requirements-openai.txt"), folder),
    },
    // Not servers: packages that code often uses, for sandboxes with this interpreter.
    Environment {
        name: "venv-science",
        pins: &["requirements-science.txt"],
        make: |pins, folder| make_venv(&pins.join("requirements-science.txt"), folder),
    },
];

/// Returns the folder of the servers.
pub(crate) fn folder() -> Result<PathBuf> {
    match std::env::var_os(FOLDER) {
        Some(folder) => Ok(folder.into()),
        None => Ok(Metadata::load(Resolve::Members)?.target_directory.join("test-servers")),
    }
}

/// Lets all users enter and list a folder.
fn allow_entering(folder: &Path) -> std::io::Result<()> {
    const ALL: u32 = 0o055;
    let mode = match fs::metadata(folder) {
        Ok(found) => found.permissions().mode(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if mode & ALL == ALL { Ok(()) } else { fs::set_permissions(folder, fs::Permissions::from_mode(mode | ALL)) }
}

/// Builds environments that are missing or have other pins.
pub(crate) fn install() -> Result<()> {
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Cargo may have created these with a umask that excludes the ordinary user of the tests.
    let target = Metadata::load(Resolve::Members)?.target_directory;
    for made in [target.join("debug/deps"), target.join("debug"), target, folder.clone()] {
        allow_entering(&made).with_context(|| format!("cannot change the permissions of {}", made.display()))?;
    }
    let lock = File::create(folder.join("lock")).context("cannot create the lock of the test servers")?;
    lock.lock().context("cannot lock the test servers")?;
    let pins = repository().join("xtask/test-servers");
    for environment in ENVIRONMENTS {
        let target = folder.join(environment.name);
        let wanted = read_pins(&pins, environment.pins)?;
        ensure(environment.name, &wanted, &target, || (environment.make)(&pins, &target))?;
    }
    Ok(())
}

/// Makes an environment in `target`, unless it was made with the same pins before.
pub(crate) fn ensure(name: &str, pins: &str, target: &Path, mut make: impl FnMut() -> Result<()>) -> Result<()> {
    if fs::read_to_string(target.join(STAMP)).is_ok_and(|stamp| stamp == pins) {
        eprintln!("{name} is here");
        return Ok(());
    }
    with_retries(name, || {
        remove(target)?;
        make()
    })?;
    fs::write(target.join(STAMP), pins).with_context(|| format!("cannot write to {}", target.display()))
}

fn read_pins(pins: &Path, names: &[&str]) -> Result<String> {
    let mut text = String::new();
    for name in names {
        let path = pins.join(name);
        text += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(text)
}

fn with_retries(name: &str, mut make: impl FnMut() -> Result<()>) -> Result<()> {
    let mut pause = FIRST_PAUSE;
    for attempt in 1..ATTEMPTS {
        eprintln!("making {name}");
        match make() {
            Ok(()) => return Ok(()),
            Err(error) => eprintln!("attempt {attempt} of {ATTEMPTS}: {error:#}"),
        }
        std::thread::sleep(pause);
        pause *= 2;
    }
    make().with_context(|| format!("cannot make {name}"))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn make_npm(pins: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(pins.join(name), folder.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    // No package needs its install scripts, so they are disabled.
    run(Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"])
        .current_dir(folder))
}

/// Makes a Python environment with exactly these packages.
pub(crate) fn make_venv(requirements: &Path, folder: &Path) -> Result<()> {
    let python = needs::python_with_venv().context("there is no python3 that can create environments")?;
    run(Command::new(python).args(["-m", "venv"]).arg(folder))?;
    run(Command::new(folder.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--no-deps"])
        .arg("--requirement")
        .arg(requirements))
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot start `{program}`"))?;
    if !status.success() {
        bail!("`{program}` failed: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pin_is_exact() {
        let pins = repository().join("xtask/test-servers");
        for name in ["", "-sqlite", "-api", "-openai", "-science"].map(|of| format!("requirements{of}.txt")) {
            let text = fs::read_to_string(pins.join(&name)).unwrap();
            let loose: Vec<_> = text.lines().filter(|line| line.split("==").count() != 2).collect();
            assert_eq!(loose, Vec::<&str>::new(), "{name}");
        }
    }

    #[test]
    fn no_pin_names_a_registry() {
        let folders = ["", "clients/", "conformance/", "oidc/", "openai/"];
        for name in folders.map(|folder| format!("{folder}package-lock.json")) {
            let lock = fs::read_to_string(repository().join("xtask/test-servers").join(name)).unwrap();
            assert!(!lock.contains("\"resolved\""), "write it with `npm install --omit-lockfile-registry-resolved`");
        }
    }
}
