//! What every package contains: the program, its man pages and completions, the licence.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};

use super::archive::Tree;
use super::binary::Needs;
use crate::metadata::{Metadata, Resolve, repository};

/// One line for the lists of package managers.
pub(super) const SUMMARY: &str = "Run code from AI agents in a sandbox, with MCP tools available as functions";

/// A short description for the pages of package registries, in Markdown.
pub(super) const DESCRIPTION: &str = include_str!("../../dist/description.md");

/// The name of the packages for pip and npm. The bare name is taken in both registries.
pub(super) const PACKAGE: &str = "coracle-mcp";

/// What the packages are made of.
pub(crate) struct Contents {
    pub(super) version: String,
    /// Time stamp of every file: seconds since 1970.
    pub(super) stamp: u64,
    /// The commit that the packages are made from, where that is known.
    pub(super) commit: Option<String>,
    pub(super) program: Rc<[u8]>,
    pub(super) needs: Needs,
    /// By file name, such as `coracle-exec.1`.
    pub(super) man_pages: BTreeMap<String, Vec<u8>>,
    pub(super) completions: Completions,
    pub(super) licence: Vec<u8>,
}

/// Completions by shell.
pub(super) struct Completions {
    pub(super) bash: Vec<u8>,
    pub(super) zsh: Vec<u8>,
    pub(super) fish: Vec<u8>,
}

/// Where a package puts completions and man pages.
pub(super) struct Places {
    pub(super) bash: &'static str,
    pub(super) zsh: &'static str,
    pub(super) fish: &'static str,
    pub(super) man: &'static str,
}

/// The places of software that is not from the distribution, below `/usr/local` or the prefix of an environment.
pub(super) const LOCAL: Places = Places {
    bash: "share/bash-completion/completions/coracle",
    zsh: "share/zsh/site-functions/_coracle",
    fish: "share/fish/vendor_completions.d/coracle.fish",
    man: "share/man/man1",
};

impl Contents {
    /// Asks the program at `binary` for its man pages and completions.
    pub(crate) fn gather(binary: &Path) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let binary = stripped(binary, folder.path())?;
        let program: Rc<[u8]> = fs::read(&binary).with_context(|| format!("cannot read {}", binary.display()))?.into();
        let pages = folder.path().join("man");
        printed(Command::new(&binary).args(["man", "--output"]).arg(&pages))?;
        let completions = |shell| printed(Command::new(&binary).args(["completions", shell]));
        Ok(Self {
            version: version(&binary)?,
            stamp: stamp()?,
            commit: commit(),
            needs: Needs::of(&program)?,
            program,
            man_pages: files(&pages)?,
            completions: Completions {
                bash: completions("bash")?,
                zsh: completions("zsh")?,
                fish: completions("fish")?,
            },
            licence: fs::read(repository().join("LICENSE")).context("cannot read LICENSE")?,
        })
    }

    /// What the program needs to run.
    pub(crate) fn glibc(&self) -> super::Glibc {
        self.needs.glibc
    }

    /// Size of the program in bytes.
    pub(crate) fn program_size(&self) -> usize {
        self.program.len()
    }

    /// Adds completions and man pages, each path with `prefix` before it.
    pub(super) fn add_documentation(&self, tree: &mut Tree, prefix: &str, places: &Places) {
        tree.file(format!("{prefix}{}", places.bash), &self.completions.bash);
        tree.file(format!("{prefix}{}", places.zsh), &self.completions.zsh);
        tree.file(format!("{prefix}{}", places.fish), &self.completions.fish);
        for (name, page) in &self.man_pages {
            tree.file(format!("{prefix}{}/{name}", places.man), page);
        }
    }
}

/// A copy of the program without symbols and debug information, which are most of its size; the program itself if it
/// has none.
fn stripped(binary: &Path, folder: &Path) -> Result<std::path::PathBuf> {
    let bytes = fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    if Needs::is_stripped(&bytes)? {
        return std::path::absolute(binary).context("find the current folder");
    }
    let copy = folder.join("coracle");
    printed(Command::new("strip").arg("-o").arg(&copy).arg(binary))
        .context("the binary has symbols, which packages do not have: install binutils")?;
    Ok(copy)
}

/// The version that the program itself prints, which must be that of the workspace.
fn version(binary: &Path) -> Result<String> {
    let text = String::from_utf8(printed(Command::new(binary).arg("--version"))?).context("the version is no text")?;
    let version = text.trim().strip_prefix("coracle ").with_context(|| format!("`{}` is no version", text.trim()))?;
    let metadata = Metadata::load(Resolve::Members)?;
    let own = metadata.members().find(|package| package.name == "coracle-cli").context("there is no coracle-cli")?;
    if own.version != version {
        bail!("the binary has version {version}, but the sources have {}: build it again", own.version);
    }
    Ok(version.to_owned())
}

/// `SOURCE_DATE_EPOCH`, or the time of the commit, or a fixed time where the sources are in no repository.
fn stamp() -> Result<u64> {
    if let Ok(stamp) = std::env::var("SOURCE_DATE_EPOCH") {
        return stamp.parse().with_context(|| format!("SOURCE_DATE_EPOCH is `{stamp}`, which is not a number"));
    }
    Ok(git(&["log", "-1", "--format=%ct"]).and_then(|time| time.parse().ok()).unwrap_or(FALLBACK_STAMP))
}

/// The first second of 1980, before which zip archives have no time.
const FALLBACK_STAMP: u64 = 315_532_800;

/// The commit of the sources.
pub(super) fn commit() -> Option<String> {
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(repository()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// Standard output of a command that must succeed.
pub(super) fn printed(command: &mut Command) -> Result<Vec<u8>> {
    let shown = crate::steps::render(command);
    let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed: {}\n{}{said}", output.status, String::from_utf8_lossy(&output.stdout));
    }
    Ok(output.stdout)
}

fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.insert(name, fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    Ok(files)
}
