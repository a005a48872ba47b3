//! Builds the page from `web/`, and lists its files for the crate.
//!
//! `CORACLE_PAGE=require` makes a page that cannot be built an error. `CORACLE_PAGE=/path` uses a page that was built
//! before. Otherwise, a machine without Node or without a network gets a program without the page, and a warning.

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files and folders that the page is built from, relative to `web/`.
const SOURCES: [&str; 9] = [
    "index.html",
    "package.json",
    "package-lock.json",
    "scripts",
    "src",
    "svelte.config.js",
    "tsconfig.json",
    "vite.config.ts",
    "../docs/openapi.json",
];
/// Oldest version of Node that the tools support.
const OLDEST_NODE: (u32, u32) = (20, 19);
/// Maximum length of the reason why there is no page, in characters.
const MAX_REASON: usize = 1_500;
const VARIABLE: &str = "CORACLE_PAGE";

type Outcome<T> = Result<T, String>;

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let wish = env::var(VARIABLE).unwrap_or_default();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let web = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", web.join(source).display());
    }
    let built = match wish.as_str() {
        "" | "require" => build(&web, &out),
        "none" => Err(format!("{VARIABLE}=none was set when this program was built")),
        path => {
            println!("cargo::rerun-if-changed={path}");
            Ok(PathBuf::from(path))
        }
    };
    let written = built.and_then(|folder| write_assets(&folder, &out));
    if let Err(reason) = written {
        let reason: String = reason.chars().take(MAX_REASON).collect();
        if !matches!(wish.as_str(), "" | "none") {
            println!("cargo::error=the page cannot be built: {}", reason.replace('\n', " "));
            return;
        }
        if wish.is_empty() {
            println!("cargo::warning=this build has no web page: {}", reason.replace('\n', " "));
        }
        let text = format!("const MISSING: Option<&str> = Some({reason:?});\nconst ASSETS: &[Asset] = &[];\n");
        if let Err(error) = fs::write(out.join("assets.rs"), text) {
            println!("cargo::error=cannot write to {}: {error}", out.display());
        }
    }
}

/// Builds the page in the output folder, and returns the folder with its files.
fn build(web: &Path, out: &Path) -> Outcome<PathBuf> {
    check_node()?;
    let copy = out.join("web");
    remove(&copy)?;
    for source in SOURCES {
        copy_all(&web.join(source), &copy.join(source))?;
    }
    let modules = modules(&copy, out)?;
    std::os::unix::fs::symlink(&modules, copy.join("node_modules")).map_err(failed("link to", &modules))?;
    // Not `npm run`, whose settings may come from anywhere.
    run(Command::new("node").arg("scripts/types.mjs").current_dir(&copy))?;
    let vite = modules.join("vite/bin/vite.js");
    run(Command::new("node").arg(vite).args(["build", "--logLevel", "warn"]).current_dir(&copy))?;
    Ok(copy.join("dist"))
}

fn check_node() -> Outcome<()> {
    let install = "install Node 20.19 or newer and npm (Debian: `apt install nodejs npm`), then run \
                   `touch crates/page/build.rs` and build again";
    let output = Command::new("node").arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot start node: {error}; {install}"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let mut numbers = text.trim_start_matches('v').split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OLDEST_NODE => Ok(()),
        _ => Err(format!("node is too old ({text:?}); {install}")),
    }
}

/// Returns the folder with the packages of the lock file, which all profiles share.
fn modules(copy: &Path, out: &Path) -> Outcome<PathBuf> {
    let lock = fs::read(copy.join("package-lock.json")).map_err(failed("read", &copy.join("package-lock.json")))?;
    // The target folder is the first one above that Cargo has marked.
    let target = out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).unwrap_or(out);
    let cache = target.join("page-modules");
    fs::create_dir_all(&cache).map_err(failed("create", &cache))?;
    let guard = File::create(cache.join("lock")).map_err(failed("create", &cache.join("lock")))?;
    guard.lock().map_err(failed("lock", &cache))?;
    let folder = cache.join(&hex::encode(Sha256::digest(&lock))[..16]);
    let (done, modules) = (folder.join("complete"), folder.join("node_modules"));
    if done.exists() {
        return Ok(modules);
    }
    remove(&folder)?;
    fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(copy.join(name), folder.join(name)).map_err(failed("copy", &copy.join(name)))?;
    }
    // No package needs its install scripts. A machine without a network should know soon.
    run(Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        .args(["--fetch-retries=1", "--fetch-timeout=60000"])
        .current_dir(&folder))?;
    fs::write(&done, "").map_err(failed("write", &done))?;
    Ok(modules)
}

/// Lists the files of the page as Rust, with their compressed forms beside.
fn write_assets(folder: &Path, out: &Path) -> Outcome<()> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files.sort();
    if !files.contains(&folder.join("index.html")) {
        return Err(format!("{} has no index.html", folder.display()));
    }
    let packed = out.join("gzip");
    remove(&packed)?;
    fs::create_dir_all(&packed).map_err(failed("create", &packed))?;
    let mut text = "const MISSING: Option<&str> = None;\nconst ASSETS: &[Asset] = &[\n".to_owned();
    for (number, file) in files.iter().enumerate() {
        let bytes = fs::read(file).map_err(failed("read", file))?;
        let compressed = packed.join(number.to_string());
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = encoder.write_all(&bytes).and_then(|()| encoder.finish());
        fs::write(&compressed, gzip.map_err(failed("compress", file))?).map_err(failed("write", &compressed))?;
        let path = file.strip_prefix(folder).unwrap_or(file).to_string_lossy().into_owned();
        let etag = format!("\"{}\"", &hex::encode(Sha256::digest(&bytes))[..32]);
        let mime = mime(&path);
        let (plain, gzip) = (file.to_string_lossy(), compressed.to_string_lossy());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "    Asset {{ path: {path:?}, mime: {mime:?}, etag: {etag:?}, bytes: include_bytes!({plain:?}), \
             gzip: include_bytes!({gzip:?}) }},"
        );
    }
    text.push_str("];\n");
    fs::write(out.join("assets.rs"), text).map_err(failed("write to", out))
}

fn mime(path: &str) -> &'static str {
    match Path::new(path).extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Runs a program. If it fails, the end of what it printed becomes warnings of the build.
fn run(command: &mut Command) -> Outcome<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot start {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // Not part of the reason, which everyone can read who opens the page.
    for line in said.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev() {
        println!("cargo::warning={line}");
    }
    Err(format!("{name} failed ({}): the output of the build has the details", output.status))
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome<()> {
    for entry in fs::read_dir(folder).map_err(failed("list", folder))? {
        let path = entry.map_err(failed("list", folder))?.path();
        if path.is_dir() { list(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> Outcome<()> {
    if from.is_dir() {
        for entry in fs::read_dir(from).map_err(failed("list", from))? {
            let entry = entry.map_err(failed("list", from))?;
            copy_all(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
    }
    fs::copy(from, to).map(drop).map_err(failed("copy", from))
}

fn remove(folder: &Path) -> Outcome<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", folder)(error)),
        _ => Ok(()),
    }
}

fn failed<'a>(doing: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> String + 'a {
    move |error| format!("cannot {doing} {}: {error}", path.display())
}
