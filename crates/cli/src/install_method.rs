//! How this program was installed, told from the files around it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the packages for pip and npm.
const PACKAGE: &str = "coracle-mcp";

/// The crate with the program, as `cargo install` knows it.
const CRATE: &str = "coracle-cli";

/// A way of installing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// A wheel that pip, or something that works like it, installed.
    Pip {
        /// The interpreter of the environment, where it has one.
        python: Option<PathBuf>,
    },
    /// `uv tool install`.
    Uv,
    /// `uvx`, which runs a wheel from a cache.
    Uvx,
    /// `pipx install`.
    Pipx,
    /// `npm install`, with the folder that has `node_modules`, and the packages to remove.
    Npm { folder: PathBuf, is_global: bool, packages: String },
    /// `npx`, which runs a package from a cache: the folder to remove.
    Npx { cache: PathBuf },
    /// A Debian package.
    Deb,
    /// `cargo install`, with the folder that it installs to.
    Cargo { root: PathBuf },
    /// A build folder of cargo.
    Build,
    /// A container image.
    Image,
    /// A file that somebody put there.
    File,
}

impl Method {
    /// Looks around `program`, an absolute path without symbolic links.
    pub(crate) fn of(program: &Path) -> Self {
        of_npm(program)
            .or_else(|| of_wheel(program))
            .or_else(|| of_system(program))
            .or_else(|| of_cargo(program))
            .unwrap_or(Self::File)
    }

    /// For scripts.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Pip { .. } => "pip",
            Self::Uv => "uv",
            Self::Uvx => "uvx",
            Self::Pipx => "pipx",
            Self::Npm { .. } => "npm",
            Self::Npx { .. } => "npx",
            Self::Deb => "deb",
            Self::Cargo { .. } => "cargo",
            Self::Build => "build",
            Self::Image => "image",
            Self::File => "file",
        }
    }

    /// Description of the method for people.
    pub(crate) fn description(&self) -> &'static str {
        match self {
            Self::Pip { .. } => "Python package, installed with pip",
            Self::Uv => "Python package, installed with uv",
            Self::Uvx => "Python package, started with uvx",
            Self::Pipx => "Python package, installed with pipx",
            Self::Npm { .. } => "npm package",
            Self::Npx { .. } => "npm package, started with npx",
            Self::Deb => "Debian package",
            Self::Cargo { .. } => "installed with cargo",
            Self::Build => "build folder",
            Self::Image => "container image",
            Self::File => "single file",
        }
    }

    /// The command that removes the program.
    pub(crate) fn removal(&self, program: &Path) -> String {
        match self {
            Self::Pip { python: Some(python) } => format!("{} -m pip uninstall {PACKAGE}", for_shell(python)),
            Self::Pip { python: None } => format!("python3 -m pip uninstall {PACKAGE}"),
            Self::Uv => format!("uv tool uninstall {PACKAGE}"),
            Self::Uvx => format!("uv cache clean {PACKAGE}"),
            Self::Pipx => format!("pipx uninstall {PACKAGE}"),
            Self::Npm { is_global: true, packages, .. } => format!("npm uninstall --global {packages}"),
            Self::Npm { folder, packages, .. } => format!("npm uninstall --prefix {} {packages}", for_shell(folder)),
            Self::Npx { cache } => format!("rm -r {}", for_shell(cache)),
            Self::Deb => "sudo apt-get remove coracle".to_owned(),
            Self::Cargo { root } => format!("cargo uninstall --root {} {CRATE}", for_shell(root)),
            Self::Build => "cargo clean".to_owned(),
            Self::Image => format!("docker image rm coracle:{}", env!("CARGO_PKG_VERSION")),
            Self::File => format!("rm {}", for_shell(program)),
        }
    }

    /// The command that starts the program again after its cache was cleaned, where it has no path that lasts.
    pub(crate) fn starter(&self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Self::Uvx => Some(("uvx", &[PACKAGE])),
            Self::Npx { .. } => Some(("npx", &["--yes", PACKAGE])),
            _ => None,
        }
    }
}

fn of_npm(program: &Path) -> Option<Method> {
    let is_modules = |folder: &&Path| folder.file_name() == Some(OsStr::new("node_modules"));
    let modules = program.ancestors().find(is_modules)?;
    let own = program.strip_prefix(modules).ok()?.iter().next()?.to_str()?;
    if !own.starts_with(PACKAGE) {
        return None;
    }
    // The package with the program is below the one that depends on it, and removed with it, or beside it. In the
    // latter case, it may have been installed by name.
    let outer = modules.parent().filter(|folder| folder.file_name() == Some(OsStr::new(PACKAGE)));
    let outer = outer.and_then(Path::parent).filter(is_modules);
    let packages = if outer.is_some() { PACKAGE.to_owned() } else { format!("{PACKAGE} {own}") };
    let modules = outer.unwrap_or(modules);
    let folder = modules.parent()?;
    if folder.parent()?.file_name() == Some(OsStr::new("_npx")) {
        return Some(Method::Npx { cache: folder.to_owned() });
    }
    // Global packages are in `PREFIX/lib/node_modules`, beside no manifest.
    let is_global = folder.file_name() == Some(OsStr::new("lib")) && !folder.join("package.json").exists();
    Some(Method::Npm { folder: folder.to_owned(), is_global, packages })
}

fn of_wheel(program: &Path) -> Option<Method> {
    let prefix = program.parent()?.parent()?;
    if !has_wheel(prefix) {
        return None;
    }
    let is_cached = prefix.iter().any(|part| part.to_string_lossy().starts_with("archive-v"));
    Some(if prefix.join("uv-receipt.toml").exists() {
        Method::Uv
    } else if prefix.join("pipx_metadata.json").exists() {
        Method::Pipx
    } else if is_cached {
        Method::Uvx
    } else {
        let python = prefix.join("bin/python");
        Method::Pip { python: python.exists().then_some(python) }
    })
}

/// Whether the metadata of the wheel is below `prefix`, where installers put it.
fn has_wheel(prefix: &Path) -> bool {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let is_metadata = |name: &String| name.starts_with("coracle_mcp-") && name.ends_with(".dist-info");
    let library = prefix.join("lib");
    let pythons = names(&library).into_iter().filter(|name| name.starts_with("python"));
    let packages =
        pythons.flat_map(|name| ["site-packages", "dist-packages"].map(|part| library.join(&name).join(part)));
    // `pip install --target` has them beside `bin`.
    packages.chain([prefix.to_owned()]).any(|folder| names(&folder).iter().any(is_metadata))
}

fn of_system(program: &Path) -> Option<Method> {
    let below = |tail: &str| -> Option<PathBuf> {
        let root = program.to_str()?.strip_suffix(tail)?;
        Some(Path::new(if root.is_empty() { "/" } else { root }).to_owned())
    };
    if below("/usr/bin/coracle").is_some_and(|root| root.join("var/lib/dpkg/info/coracle.list").exists()) {
        return Some(Method::Deb);
    }
    let is_image = |root: PathBuf| root.join("usr/local/share/doc/coracle/IMAGE").exists();
    below("/usr/local/bin/coracle").is_some_and(is_image).then_some(Method::Image)
}

fn of_cargo(program: &Path) -> Option<Method> {
    let root = program.parent()?.parent()?;
    let installed = fs::read_to_string(root.join(".crates.toml")).unwrap_or_default();
    if installed.contains(&format!("\"{CRATE} ")) {
        return Some(Method::Cargo { root: root.to_owned() });
    }
    let is_build = program.ancestors().any(|folder| folder.join(".rustc_info.json").exists());
    is_build.then_some(Method::Build)
}

/// A path as a shell reads it.
pub(crate) fn for_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found for a program in a folder with these other files.
    fn found(program: &str, others: &[&str]) -> (Method, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        for path in others.iter().chain([&program]) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "\"coracle-cli 0.1.0 (path)\" = []\n").unwrap();
        }
        (Method::of(&folder.path().join(program)), folder.path().to_owned())
    }

    #[test]
    fn the_files_around_the_program_tell_how_it_was_installed() {
        let wheel = "lib/python3.12/site-packages/coracle_mcp-0.1.0.dist-info/WHEEL";
        let cached = "archive-v0/x/lib/python3.12/site-packages/coracle_mcp-0.1.0.dist-info/WHEEL";
        let modules = "node_modules/coracle-mcp-linux-x64/bin/coracle";
        for (program, others, method) in [
            ("bin/coracle", &[wheel][..], "pip"),
            ("bin/coracle", &["coracle_mcp-0.1.0.dist-info/WHEEL"], "pip"),
            ("bin/coracle", &[wheel, "uv-receipt.toml"], "uv"),
            ("bin/coracle", &[wheel, "pipx_metadata.json"], "pipx"),
            ("archive-v0/x/bin/coracle", &[cached], "uvx"),
            (modules, &["package.json"], "npm"),
            (&format!("lib/{modules}"), &[], "npm"),
            (&format!("_npx/0123/{modules}"), &["_npx/0123/package.json"], "npx"),
            ("usr/bin/coracle", &["var/lib/dpkg/info/coracle.list"], "deb"),
            ("usr/local/bin/coracle", &["usr/local/share/doc/coracle/IMAGE"], "image"),
            ("bin/coracle", &[".crates.toml"], "cargo"),
            ("target/release/coracle", &["target/.rustc_info.json"], "build"),
            ("bin/coracle", &[], "file"),
            // Other people's packages beside the program say nothing about it.
            ("bin/coracle", &["lib/python3.12/site-packages/other-1.0.dist-info/WHEEL"], "file"),
            ("node_modules/other/bin/coracle", &["package.json"], "file"),
        ] {
            assert_eq!(found(program, others).0.name(), method, "{program} beside {others:?}");
        }
    }

    #[test]
    fn each_way_of_installing_has_its_command_for_removing() {
        let (method, root) = found("lib/node_modules/coracle-mcp-linux-x64/bin/coracle", &[]);
        assert_eq!(method.removal(&root), "npm uninstall --global coracle-mcp coracle-mcp-linux-x64");
        let below = "lib/node_modules/coracle-mcp/node_modules/coracle-mcp-linux-x64/bin/coracle";
        let (method, root) = found(below, &[]);
        assert_eq!(method.removal(&root), "npm uninstall --global coracle-mcp");
        let (method, root) = found("my files/coracle", &[]);
        let program = root.join("my files/coracle");
        assert_eq!(method.removal(&program), format!("rm '{}'", program.display()));
        assert_eq!(for_shell(Path::new("/it's")), r"'/it'\''s'");
    }

    #[test]
    fn a_cached_program_is_started_by_the_command_that_fetches_it() {
        assert_eq!(Method::Uvx.starter(), Some(("uvx", &["coracle-mcp"][..])));
        assert_eq!(Method::Npx { cache: "/x".into() }.starter(), Some(("npx", &["--yes", "coracle-mcp"][..])));
        assert_eq!(Method::File.starter(), None);
    }
}
