//! Installs packages into empty environments, as their users do, and runs a program through each.
//!
//! Nothing is fetched: installers see only the local files. A tool that is missing is an error, because a package that
//! was not installed was not verified.

mod container;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::contents::{PACKAGE, printed};
use super::{Contents, Kind};
use crate::{needs, test_servers};

/// What is run through every package, and what it prints.
const PROGRAM: &str = "print(6*7)";
const ANSWER: &str = "42\n";

/// The oldest Python that Coracle supports.
const OLDEST_PYTHON: &str = "python3.10";

pub(super) fn verify(kind: Kind, packages: &[PathBuf], contents: &Contents) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let place = Place { folder: folder.path() };
    let first = packages.first().context("there is no package to verify")?;
    match kind {
        Kind::Tarball => tarball(&place, first, contents),
        Kind::Wheel => wheel(&place, first),
        Kind::Npm => npm(&place, packages),
        Kind::Deb => deb(&place, first, contents),
        Kind::Image => container::image(&place, first, contents),
    }
}

/// An empty folder that is home, current folder and environment at once.
struct Place<'a> {
    folder: &'a Path,
}

impl Place<'_> {
    /// A command that knows nothing of the user who runs the verification.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.folder)
            .env("LANG", "C.UTF-8")
            .env("CORACLE_HOME", self.folder.join("data"))
            .current_dir(self.folder);
        command
    }

    /// Whether the installed program knows how it came there.
    fn is_installed_by(&self, way: &str, program: &Path) -> Result<()> {
        let told = printed(self.command(program).args(["self", "--json"]))?;
        let told: Value = serde_json::from_slice(&told).context("`coracle self --json` prints no JSON")?;
        ensure!(told["installation"]["method"] == way, "`coracle self` should name {way}: {told}");
        Ok(())
    }
}

/// Runs a program in a sandbox through an installed command.
fn try_out(what: &str, command: &mut Command) -> Result<()> {
    answered(what, command.args(["exec", "-c", PROGRAM]))
}

fn answered(what: &str, command: &mut Command) -> Result<()> {
    let answer = printed(command).with_context(|| format!("{what} does not run programs"))?;
    let answer = String::from_utf8_lossy(&answer);
    ensure!(answer == ANSWER, "{what} should print {ANSWER:?}, and printed {answer:?}");
    eprintln!("{what}: 42");
    Ok(())
}

fn are_there(folder: &Path, paths: &[&str]) -> Result<()> {
    for path in paths {
        ensure!(folder.join(path).exists(), "{path} is missing");
    }
    Ok(())
}

fn tarball(place: &Place<'_>, package: &Path, contents: &Contents) -> Result<()> {
    printed(place.command("tar").arg("-xzf").arg(package))?;
    let folder = place.folder.join(format!("coracle-{}-{}-linux", contents.version, contents.needs.processor.name()));
    are_there(
        &folder,
        &["LICENSE", "README.md", "share/man/man1/coracle-exec.1", "share/zsh/site-functions/_coracle"],
    )?;
    let program = folder.join("bin/coracle");
    try_out("the tarball", &mut place.command(&program))?;
    place.is_installed_by("file", &program)
}

fn wheel(place: &Place<'_>, package: &Path) -> Result<()> {
    let python = needs::python_with_venv().context("there is no python3 that can make environments")?;
    for (name, python) in std::iter::once(("python3", python)).chain(oldest_python().map(|it| (OLDEST_PYTHON, it))) {
        let environment = place.folder.join(name);
        printed(place.command(python).args(["-m", "venv"]).arg(&environment))?;
        let bin = environment.join("bin");
        printed(
            place
                .command(bin.join("python"))
                .args(["-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check"])
                .arg(package),
        )?;
        are_there(&environment, &["share/man/man1/coracle.1", "share/bash-completion/completions/coracle"])?;
        for command in ["coracle", PACKAGE] {
            try_out(&format!("`{command}` of the wheel, {name}"), &mut place.command(bin.join(command)))?;
        }
        try_out("the wheel's module", place.command(bin.join("python")).args(["-m", "coracle_mcp"]))?;
        place.is_installed_by("pip", &bin.join("coracle"))?;
    }
    if let Some(uv) = uv()? {
        // The package's name alone, as in `uvx coracle-mcp`.
        let mut run = place.command(uv);
        run.args(["tool", "run", "--offline", "--no-config", "--from"]).arg(package).arg(PACKAGE);
        try_out("uvx", &mut run)?;
    }
    Ok(())
}

/// The oldest Python, where there is one: most machines have only a newer.
fn oldest_python() -> Option<PathBuf> {
    let answer =
        Command::new(OLDEST_PYTHON).args(["-I", "-c", "import ensurepip, sys; print(sys.executable)"]).output();
    let answer = answer.ok().filter(|answer| answer.status.success());
    if answer.is_none() {
        eprintln!("not tried: {OLDEST_PYTHON}, which is not here");
    }
    Some(String::from_utf8(answer?.stdout).ok()?.trim().into())
}

/// `uv` from the path, or the one among the tools of the tests.
fn uv() -> Result<Option<PathBuf>> {
    let of_the_tests = test_servers::folder()?.join("venv-api/bin/uv");
    let found = needs::program("uv").or_else(|| of_the_tests.exists().then_some(of_the_tests));
    if found.is_none() {
        eprintln!("not tried: uvx, because there is no uv");
    }
    Ok(found)
}

fn npm(place: &Place<'_>, packages: &[PathBuf]) -> Result<()> {
    let options = ["--offline", "--no-audit", "--no-fund", "--loglevel=error"];
    printed(place.command("npm").arg("install").args(options).args(packages))?;
    try_out("npx", place.command("npx").args(["--offline", PACKAGE]))?;
    try_out("`coracle` of the npm package", &mut place.command(place.folder.join("node_modules/.bin/coracle")))?;
    place.is_installed_by("npm", &place.folder.join("node_modules/.bin/coracle"))?;

    // The launcher hands on how the program ended.
    let ended = place.command("npx").args(["--offline", PACKAGE, "exec", "-c", "raise SystemExit(3)"]).status();
    let ended = ended.context("cannot start npx")?;
    ensure!(ended.code() == Some(1), "npx should exit as coracle does when code fails, with 1: {ended}");

    // The platform's package is optional: a machine that has none gets a message of ours and not one of Node.js.
    fs::remove_dir_all(place.folder.join("node_modules").join(platform_package(packages)?))
        .context("cannot remove the platform's package")?;
    let without =
        place.command("npx").args(["--offline", PACKAGE, "--version"]).output().context("cannot start npx")?;
    let said = String::from_utf8_lossy(&without.stderr);
    ensure!(without.status.code() == Some(125) && said.contains("hint: "), "{}: {said}", without.status);
    Ok(())
}

/// The name of the package with the program.
fn platform_package(packages: &[PathBuf]) -> Result<String> {
    let names = packages.iter().filter_map(|path| path.file_name()?.to_str()?.rsplit_once('-').map(|(name, _)| name));
    Ok(names.max_by_key(|name| name.len()).context("there is no package for a platform")?.to_owned())
}

/// Checks that the AppArmor profile is installed where AppArmor can read it, and only there, and that it is removed.
fn profile(place: &Place<'_>, package: &Path, root: &Path, dpkg: &dyn Fn(&[&str]) -> Command) -> Result<()> {
    let installed = root.join("etc/apparmor.d/coracle");
    let folder = root.join("etc/apparmor.d");
    let tools = place.folder.join("tools");
    fs::create_dir_all(&folder).and_then(|()| fs::create_dir_all(&tools)).context("cannot create folders")?;
    let with_parser = |status: u8, arguments: &[&str], package: Option<&Path>| {
        let parser = tools.join("apparmor_parser");
        fs::write(&parser, format!("#!/bin/sh\nexit {status}\n")).context("cannot write a parser")?;
        fs::set_permissions(&parser, fs::Permissions::from_mode(0o755)).context("cannot write a parser")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(tools.clone()).chain(std::env::split_paths(&path)))?;
        printed(dpkg(arguments).args(package).env("PATH", path)).map(drop)
    };
    with_parser(1, &["--install"], Some(package))?;
    ensure!(!installed.exists(), "a parser that does not know the rules of the profile got it");
    for unchanged in [true, false] {
        with_parser(0, &["--install"], Some(package))?;
        let text = fs::read_to_string(&installed).context("the AppArmor profile is missing")?;
        ensure!(text == super::deb::PROFILE.1, "the AppArmor profile differs: {text}");
        if !unchanged {
            fs::write(&installed, "changed").context("cannot change the profile")?;
            with_parser(0, &["--install"], Some(package))?;
        }
        with_parser(0, &["--remove", "coracle"], None)?;
        ensure!(installed.exists() != unchanged, "only a changed profile stays when the package is removed");
    }
    with_parser(0, &["--purge", "coracle"], None)?;
    ensure!(!installed.exists(), "the AppArmor profile is still there after a purge");
    fs::remove_dir(&folder).context("the package left files of AppArmor behind")
}

fn deb(place: &Place<'_>, package: &Path, contents: &Contents) -> Result<()> {
    let control =
        String::from_utf8_lossy(&printed(place.command("dpkg-deb").arg("--field").arg(package))?).into_owned();
    for line in [
        "Package: coracle".to_owned(),
        format!("Version: {}", contents.version),
        format!("Depends: libc6 (>= {}), python3 (>= 3.10), bash", contents.needs.glibc),
    ] {
        ensure!(control.contains(&line), "`{line}` is missing from\n{control}");
    }
    let root = place.folder.join("root");
    let program = root.join("usr/bin/coracle");
    fs::create_dir_all(&root).context("cannot create a root")?;
    if needs::is_root() {
        for folder in ["info", "updates"] {
            fs::create_dir_all(root.join("var/lib/dpkg").join(folder)).context("cannot create dpkg's database")?;
        }
        fs::write(root.join("var/lib/dpkg/status"), "").context("cannot create dpkg's database")?;
        let dpkg = |arguments: &[&str]| {
            let mut command = place.command("dpkg");
            // The root has no shell, so scripts run outside of it and are told where it is.
            command.arg(format!("--root={}", root.display())).args(["--force-depends", "--force-script-chrootless"]);
            command.arg("--log=/dev/null").args(arguments);
            command
        };
        printed(dpkg(&["--install"]).arg(package))?;
        try_out("the Debian package", &mut place.command(&program))?;
        printed(&mut dpkg(&["--remove", "coracle"]))?;
        ensure!(!program.exists() && !root.join("usr/share/man").exists(), "dpkg left files behind");
        profile(place, package, &root, &dpkg)?;
    }
    printed(place.command("dpkg-deb").arg("-x").arg(package).arg(&root))?;
    are_there(
        &root,
        &[
            "usr/share/man/man1/coracle-exec.1.gz",
            "usr/share/bash-completion/completions/coracle",
            "usr/share/zsh/vendor-completions/_coracle",
            "usr/share/fish/vendor_completions.d/coracle.fish",
            "usr/share/doc/coracle/copyright",
            super::deb::PROFILE.0,
        ],
    )?;
    try_out("the files of the Debian package", &mut place.command(&program))?;
    // Whether this machine has what the package depends on; nothing is installed.
    let simulated = place.command("dpkg").args(["--simulate", "--install"]).arg(package).output();
    let simulated = simulated.context("cannot start dpkg")?;
    if !simulated.status.success() {
        bail!("dpkg would not install the package here: {}", String::from_utf8_lossy(&simulated.stderr));
    }
    Ok(())
}
