//! The image: what Coracle asks of one, and how its own is made from the programs of this machine. Nothing is pulled.

use super::engine::{Engine, told};
use crate::SandboxError;
use crate::python::{self, abi_and_folders};
use bollard::body_try_stream;
use bollard::query_parameters::CreateImageOptions;
use bytes::Bytes;
use coracle_types::PythonInterpreter;
use futures::StreamExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The image that [`build`] makes, and that is used if no other is configured.
pub const IMAGE: &str = "coracle-sandbox:latest";

/// Labels of our image: the suffix of extension modules of its Python, and whether it has packages.
const PYTHON: &str = "dev.coracle.python";
const PACKAGES: &str = "dev.coracle.packages";

/// Programs of the image besides Python and bash, as far as this machine has them.
const PROGRAMS: &str = "awk base64 basename bash bzip2 cat chmod cmp comm cp csplit cut date dd df diff dirname du echo \
    env expand expr factor false file find fmt fold getopt grep egrep fgrep gunzip gzip head hostname id install join jq \
    kill less ln ls md5sum mkdir mkfifo mktemp mv nl nproc numfmt od paste pathchk pgrep pkill pr printenv printf ps \
    pwd readlink realpath rev rm rmdir sed seq sh sha1sum sha256sum sha512sum shuf sleep sort split stat strings stty \
    sum sync tac tail tar tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink unxz unzip wc \
    which whoami xargs xxd xz yes zcat zip [ mawk gawk";

/// Folders that the image has for mounts, and those that programs expect.
const FOLDERS: [&str; 14] = [
    "artifacts",
    "calls",
    "coracle",
    "dev",
    "environment",
    "etc",
    "guest",
    "modules",
    "proc",
    "run",
    "skills",
    "sys",
    "tools",
    "workspace",
];

/// Files and folders of this machine that programs read, if they exist.
const DATA: [&str; 6] = [
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/alternatives",
    "/usr/lib/locale/C.utf8",
    "/usr/share/zoneinfo",
    "/usr/share/misc/magic.mgc",
];

/// Parts of the standard library that no sandbox needs.
const LEFT_OUT: [&str; 5] = ["test", "idlelib", "ensurepip", "turtledemo", "site-packages"];

/// The maximum depth of folders that are copied.
const MAX_DEPTH: usize = 64;

/// The number of programs per call of `ldd`.
const AT_ONCE: usize = 64;
const CHUNK: usize = 256 * 1024;

/// An image that the engine has.
#[derive(Debug)]
pub(super) struct Image {
    abi: Option<String>,
    has_packages: bool,
}

impl Image {
    /// Whether packages that were made for an interpreter fit this image's.
    pub(super) fn fits(&self, made_for: &PythonInterpreter) -> bool {
        !made_for.abi.is_empty() && self.abi.as_ref() == Some(&made_for.abi)
    }

    /// Whether it brings its own packages.
    pub(super) fn has_packages(&self) -> bool {
        self.has_packages
    }
}

/// Looks for an image.
pub(super) async fn find(engine: &Engine, name: &str) -> Result<Image, SandboxError> {
    let found = engine.docker.inspect_image(name).await.map_err(|error| {
        SandboxError::Unavailable(format!(
            "the engine has no image {name:?} ({}): run `coracle image build`, or set execution.sandbox_image to an image \
             with python3 that the engine has; nothing is pulled",
            told(&error)
        ))
    })?;
    let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
    Ok(Image { abi: labels.get(PYTHON).cloned(), has_packages: labels.contains_key(PACKAGES) })
}

/// What an image is made of.
#[derive(Clone, Debug, Default)]
pub struct ImageParts {
    /// The interpreter, instead of the default one.
    pub python: Option<PathBuf>,
    /// A folder of packages for it.
    pub packages: Option<PathBuf>,
    /// The program that containers get, whose libraries the image must have.
    pub program: Option<PathBuf>,
}

/// An image that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltImage {
    /// The name.
    pub name: String,
    /// The number of files.
    pub files: usize,
    /// The size of its archive in bytes.
    pub bytes: u64,
}

/// Makes an image from programs of this machine, and imports it into the engine. `folder` is for a temporary file.
pub async fn build(
    host: Option<&str>,
    name: &str,
    parts: ImageParts,
    folder: &Path,
) -> Result<BuiltImage, SandboxError> {
    let engine = Engine::connect(host).await?;
    let (folder, has_packages) = (folder.to_owned(), parts.packages.is_some());
    let made = tokio::task::spawn_blocking(move || archive(&parts, &folder)).await;
    let made = made.map_err(|error| SandboxError::Unavailable(format!("cannot make the image: {error}")))?;
    let Archive { file, files, abi } = made?;
    let failed = |reason: String| SandboxError::Unavailable(format!("cannot import the image {name:?}: {reason}"));
    let bytes = file.metadata().map_err(|error| failed(error.to_string()))?.len();
    let (repo, tag) = match name.rsplit_once(':') {
        Some((repo, tag)) if !tag.contains('/') => (repo, tag),
        _ => (name, "latest"),
    };
    let mut changes = vec![format!("LABEL {PYTHON}={abi}")];
    if has_packages {
        changes.push(format!("LABEL {PACKAGES}=yes"));
    }
    let options = CreateImageOptions {
        from_src: Some("-".to_owned()),
        repo: Some(repo.to_owned()),
        tag: Some(tag.to_owned()),
        changes,
        ..CreateImageOptions::default()
    };
    let pieces = futures::stream::try_unfold(file, |mut file| async move {
        let mut piece = vec![0; CHUNK];
        let length = file.read(&mut piece)?;
        piece.truncate(length);
        io::Result::Ok((length > 0).then(|| (Bytes::from(piece), file)))
    });
    let mut told_by_engine =
        std::pin::pin!(engine.docker.create_image(Some(options), Some(body_try_stream(pieces)), None));
    while let Some(line) = told_by_engine.next().await {
        line.map_err(|error| failed(told(&error)))?;
    }
    Ok(BuiltImage { name: format!("{repo}:{tag}"), files, bytes })
}

struct Archive {
    file: File,
    files: usize,
    abi: String,
}

fn io_failed(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> SandboxError {
    move |error| SandboxError::Unavailable(format!("cannot make the image: {what}: {error}"))
}

/// Writes the image's files to a temporary file, which has no name any more.
fn archive(parts: &ImageParts, folder: &Path) -> Result<Archive, SandboxError> {
    let python = python::find(parts.python.as_deref())?;
    let (abi, library) = abi_and_folders(&python.path)?;
    let mut tree = Tree::default();
    tree.add(&python.path).map_err(io_failed(python.path.display()))?;
    for folder in &library {
        tree.add_folder(folder, &LEFT_OUT, 0).map_err(io_failed(folder.display()))?;
    }
    for program in PROGRAMS.split_ascii_whitespace() {
        for folder in ["/usr/bin", "/bin"] {
            let path = Path::new(folder).join(program);
            if path.exists() {
                tree.add(&path).map_err(io_failed(path.display()))?;
                break;
            }
        }
    }
    for path in DATA.map(Path::new).into_iter().filter(|path| path.exists()) {
        tree.add_folder(path, &[], 0).map_err(io_failed(path.display()))?;
    }
    let packages = match &parts.packages {
        Some(folder) => {
            let mut packages = Tree::default();
            packages.add_folder(folder, &[], 0).map_err(io_failed(folder.display()))?;
            Some((fs::canonicalize(folder).map_err(io_failed(folder.display()))?, packages))
        }
        None => None,
    };
    let binaries = tree.files.iter().chain(packages.iter().flat_map(|(_, packages)| &packages.files));
    let binaries = binaries.chain(&parts.program);
    for library in libraries(binaries.filter(|path| is_elf(path)))? {
        let is_own = packages.as_ref().is_some_and(|(folder, _)| library.starts_with(folder));
        if !is_own {
            tree.add(&library).map_err(io_failed(library.display()))?;
        }
    }
    // What `/usr/bin/env python3` and the agent's start look for.
    if !tree.contains("/usr/bin/python3") {
        tree.links.insert("/usr/bin/python3".into(), python.path.clone());
    }
    if !tree.contains("/bin/sh") && !tree.contains("/usr/bin/sh") {
        tree.links.insert("/usr/bin/sh".into(), "bash".into());
    }
    let path = folder.join(format!("image-{}.tar", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
    let file = file.map_err(io_failed(path.display()))?;
    fs::remove_file(&path).map_err(io_failed(path.display()))?;
    let mut tar = tar::Builder::new(file);
    tar.follow_symlinks(false);
    let written = tree.write(&mut tar).and_then(|()| match &packages {
        Some((folder, packages)) => packages.write_below(&mut tar, folder, Path::new("environment")),
        None => Ok(()),
    });
    written.map_err(io_failed("the archive"))?;
    let mut file = tar.into_inner().map_err(io_failed("the archive"))?;
    file.rewind().map_err(io_failed("the archive"))?;
    Ok(Archive { file, files: tree.files.len() + packages.map_or(0, |(_, packages)| packages.files.len()), abi })
}

/// The files and links of an image, by their paths on this machine with links in parent folders resolved.
#[derive(Debug, Default)]
struct Tree {
    files: BTreeSet<PathBuf>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Tree {
    fn contains(&self, path: &str) -> bool {
        let path = Path::new(path);
        self.files.contains(path) || self.links.contains_key(path)
    }

    /// Adds a file, and the links on the way to it.
    fn add(&mut self, path: &Path) -> io::Result<()> {
        let mut path = resolve_parent(path)?;
        for _ in 0..MAX_DEPTH {
            if !path.symlink_metadata()?.is_symlink() {
                self.files.insert(path);
                return Ok(());
            }
            let target = fs::read_link(&path)?;
            let next = resolve_parent(&path.parent().unwrap_or(Path::new("/")).join(&target))?;
            self.links.insert(path, target);
            path = next;
        }
        Err(io::Error::other("too many links"))
    }

    /// Adds a folder with everything in it except for some names, or a file.
    fn add_folder(&mut self, path: &Path, left_out: &[&str], depth: usize) -> io::Result<()> {
        if !path.is_dir() {
            // A link to nowhere is of no use in the image either.
            return if path.exists() { self.add(path) } else { Ok(()) };
        }
        if depth > MAX_DEPTH {
            return Err(io::Error::other("folders are nested too deeply"));
        }
        let path = resolve_parent(path)?;
        if path.symlink_metadata()?.is_symlink() {
            let target = fs::read_link(&path)?;
            self.links.insert(path, target);
            return Ok(());
        }
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            if !left_out.iter().any(|name| entry.file_name() == **name) && !is_special(&entry) {
                self.add_folder(&entry.path(), &[], depth + 1)?;
            }
        }
        Ok(())
    }

    fn write(&self, tar: &mut tar::Builder<File>) -> io::Result<()> {
        for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
            // Merged into /usr on most machines.
            if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
                link(tar, Path::new(name), &target)?;
            }
        }
        for name in FOLDERS {
            folder(tar, name, 0o755)?;
        }
        folder(tar, "tmp", 0o1777)?;
        self.write_below(tar, Path::new("/"), Path::new(""))
    }

    /// Writes the files with their paths below `from` moved below `to`.
    fn write_below(&self, tar: &mut tar::Builder<File>, from: &Path, to: &Path) -> io::Result<()> {
        let moved = |path: &Path| path.strip_prefix(from).map(|below| to.join(below)).map_err(io::Error::other);
        for path in &self.files {
            let mut header = tar::Header::new_gnu();
            let mut file = File::open(path)?;
            let seen = file.metadata()?;
            header.set_size(seen.len());
            header.set_mode(if seen.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 });
            header.set_mtime(0);
            tar.append_data(&mut header, moved(path)?, &mut file)?;
        }
        for (path, target) in &self.links {
            link(tar, &moved(path)?, target)?;
        }
        Ok(())
    }
}

fn is_special(entry: &fs::DirEntry) -> bool {
    !entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_file() || kind.is_symlink())
}

fn link(tar: &mut tar::Builder<File>, path: &Path, target: &Path) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    header.set_mode(0o777);
    tar.append_link(&mut header, path, target)
}

fn folder(tar: &mut tar::Builder<File>, name: &str, mode: u32) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    header.set_mode(mode);
    tar.append_data(&mut header, format!("{name}/"), io::empty())
}

/// The path with all links resolved, except for the last part.
fn resolve_parent(path: &Path) -> io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(fs::canonicalize(parent)?.join(name)),
        _ => Ok(path.to_owned()),
    }
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"\x7fELF"
}

/// The shared libraries that programs of this machine load, and their loader.
fn libraries<'a>(programs: impl Iterator<Item = &'a PathBuf>) -> Result<BTreeSet<PathBuf>, SandboxError> {
    let programs: Vec<_> = programs.collect();
    let mut found = BTreeSet::new();
    for some in programs.chunks(AT_ONCE) {
        let told = Command::new("ldd").args(some).stdin(Stdio::null()).stderr(Stdio::null()).output();
        // It fails if one of them is static, and still prints the others.
        let told = told.map_err(io_failed("ldd"))?;
        for line in String::from_utf8_lossy(&told.stdout).lines().filter(|line| line.starts_with(['\t', ' '])) {
            let path = line.split_once("=>").map_or(line, |(_, path)| path).trim();
            let path = path.split_once(" (").map_or(path, |(path, _)| path);
            if path.starts_with('/') && Path::new(path).exists() {
                found.insert(PathBuf::from(path));
            }
        }
    }
    Ok(found)
}
