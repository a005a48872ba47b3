//! Loads the modules that code may import: `coracle`, `servers/…`, `skills/…`, and files beside it. There are no
//! others.

use super::compile::{self, Rejected};
use super::positions::Positions;
use super::session::Shared;
use super::sources::{OWN, without_version};
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Exception, Module};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

/// The module that generated code imports.
pub(super) const CORACLE: &str = "coracle";

/// The maximum size of a module.
const MAX_MODULE_BYTES: u64 = 4 << 20;

/// The maximum length of a module name.
const MAX_NAME: usize = 1024;

/// Folders whose modules are imported by their path below them.
const NAMED: [(&str, &str); 2] = [("servers", "/coracle/servers"), ("skills", "/coracle/skills")];

/// Folders from which modules may be loaded by path.
const ROOTS: [&str; 7] =
    ["/workspace", "/coracle/servers", "/coracle/skills", "/skills", "/tools", "/tmp", "/artifacts"];

/// Suffixes that are tried for a name, in this order.
const ENDINGS: [&str; 9] = ["", ".ts", ".mts", ".js", ".mjs", ".json", "/index.ts", "/index.js", "/index.mjs"];

/// Resolves an import to the path of a file.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) shared: Rc<Shared>,
    /// Versions of files: one that has changed since it was loaded is a new module, because agents edit files between
    /// runs.
    pub(super) versions: HashMap<PathBuf, (SystemTime, u64, u32)>,
}

/// Reads files and turns them into modules.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) shared: Rc<Shared>,
}

impl Resolver for Names {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<String, Error> {
        if name == CORACLE {
            return Ok(CORACLE.to_owned());
        }
        let found = locate(base, name).and_then(|path| self.version(&path));
        found.map_err(|why| {
            let why = self.absent(name).unwrap_or(why);
            let name: String = name.chars().take(MAX_NAME).collect();
            Exception::throw_message(ctx, &format!("cannot import \"{name}\": {why}"))
        })
    }
}

impl Names {
    /// Why a configured server has no modules, if the host knows.
    fn absent(&self, name: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct Absent {
            reason: String,
        }
        let server = name.strip_prefix("servers/")?.split('/').next()?;
        let answer = self.shared.wire.borrow_mut().ask("absent", json!({ "server": server })).ok()??;
        let absent: Vec<Absent> = serde_json::from_str(answer.get()).ok()?;
        let told = absent.into_iter().map(|absent| absent.reason);
        Some(told.collect::<Vec<_>>().join("; ")).filter(|told| !told.is_empty())
    }

    fn version(&mut self, path: &Path) -> Result<String, String> {
        let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
        let seen = (metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len());
        let known = self.versions.entry(path.to_owned()).or_insert((seen.0, seen.1, 1));
        if (known.0, known.1) != seen {
            *known = (seen.0, seen.1, known.2 + 1);
        }
        let path = path.to_str().ok_or("its path is not UTF-8")?;
        Ok(if known.2 == 1 { path.to_owned() } else { format!("{path}#{}", known.2) })
    }
}

/// The file of an import.
fn locate(base: &str, name: &str) -> Result<PathBuf, String> {
    let wanted = wanted(base, name)?;
    let file = candidates(&wanted).find(|path| path.is_file()).ok_or("there is no such file")?;
    let real = file.canonicalize().map_err(|error| error.to_string())?;
    if ROOTS.iter().any(|root| real.starts_with(root)) { Ok(real) } else { Err(OUTSIDE.to_owned()) }
}

const OUTSIDE: &str = "modules are loaded from the workspace, \"servers/…\" and \"skills/…\" only";

fn wanted(base: &str, name: &str) -> Result<PathBuf, String> {
    if name.len() > MAX_NAME || name.contains('\0') {
        return Err("this is not a module name".to_owned());
    }
    let path = Path::new(name);
    if name.starts_with("./") || name.starts_with("../") || name == "." || name == ".." {
        return Ok(folder_of(base)?.join(path));
    }
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let mut parts = path.components();
    let first = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned()).unwrap_or_default();
    let Some((_, folder)) = NAMED.iter().find(|(known, _)| *known == first) else {
        let first = name.strip_prefix("node:").unwrap_or(name);
        return Err(format!("there are no packages here: {OUTSIDE}; a file beside this one is \"./{first}\""));
    };
    let rest = parts.as_path();
    if rest.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(OUTSIDE.to_owned());
    }
    Ok(Path::new(folder).join(rest))
}

fn folder_of(base: &str) -> Result<PathBuf, String> {
    let base = without_version(base);
    if base.starts_with('/') {
        return Ok(Path::new(base).parent().unwrap_or(Path::new("/")).to_owned());
    }
    // The program itself, in the working directory of the session.
    std::env::current_dir().map_err(|error| error.to_string())
}

/// The name as written, with suffixes, and as a folder; and `.ts` for `.js`, which TypeScript code often writes.
fn candidates(wanted: &Path) -> impl Iterator<Item = PathBuf> {
    let base = wanted.as_os_str().to_owned();
    let with = move |ending: &str| {
        let mut path = base.clone();
        path.push(ending);
        PathBuf::from(path)
    };
    let typescript = wanted.extension().is_some_and(|ending| ending == "js").then(|| wanted.with_extension("ts"));
    ENDINGS.iter().map(move |ending| with(ending)).chain(typescript)
}

impl Loader for Files {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>, Error> {
        let path = without_version(name);
        match compiled(path) {
            Ok((code, positions, source)) => {
                self.shared.sources.borrow_mut().add(name, positions, &source);
                Module::declare(ctx.clone(), name, code)
            }
            Err(why) => Err(why.throw(ctx, path)),
        }
    }
}

enum Unloadable {
    Io(String),
    Syntax(Rejected),
}

impl Unloadable {
    fn throw(&self, ctx: &Ctx<'_>, path: &str) -> Error {
        match self {
            Self::Io(why) => Exception::throw_message(ctx, &format!("cannot load {path}: {why}")),
            Self::Syntax(Rejected { message, place }) => {
                let at = place.map(|place| format!(":{}:{}", place.line, place.column)).unwrap_or_default();
                Exception::throw_syntax(ctx, &format!("{message} ({path}{at})"))
            }
        }
    }
}

fn compiled(path: &str) -> Result<(String, Positions, String), Unloadable> {
    let io = |error: std::io::Error| Unloadable::Io(error.to_string());
    let metadata = fs::metadata(path).map_err(io)?;
    if !metadata.is_file() || metadata.len() > MAX_MODULE_BYTES {
        return Err(Unloadable::Io(format!("it is not a file of at most {MAX_MODULE_BYTES} bytes")));
    }
    let source = fs::read_to_string(path).map_err(io)?;
    if Path::new(path).extension().is_some_and(|ending| ending == "json") {
        let value: serde_json::Value =
            serde_json::from_str(&source).map_err(|error| Unloadable::Io(format!("it is not JSON: {error}")))?;
        return Ok((format!("export default {value};"), Positions::default(), source));
    }
    let (code, positions) = compile::module(&source).map_err(Unloadable::Syntax)?;
    Ok((code, positions, source))
}

/// The name of the module with the imports of a run.
pub(super) fn imports_of(run: u32) -> String {
    format!("{OWN}imports/{run}")
}

#[cfg(test)]
mod tests {
    use super::{OUTSIDE, candidates, wanted};
    use std::path::{Path, PathBuf};

    #[test]
    fn names_lead_to_known_folders_only() {
        assert_eq!(wanted("<code>", "servers/github"), Ok(PathBuf::from("/coracle/servers/github")));
        assert_eq!(wanted("/workspace/lib/a.ts#2", "./b"), Ok(PathBuf::from("/workspace/lib/./b")));
        assert_eq!(wanted("<code>", "servers/../../etc/passwd"), Err(OUTSIDE.to_owned()));
        assert!(wanted("<code>", "axios").is_err_and(|why| why.contains("there are no packages here")));
        assert!(wanted("<code>", "node:fs").is_err_and(|why| why.ends_with("\"./fs\"")));
        assert!(wanted("<code>", &"x".repeat(5000)).is_err());
    }

    #[test]
    fn suffixes_may_be_omitted() {
        let found: Vec<PathBuf> = candidates(Path::new("/workspace/a.js")).collect();
        assert_eq!((found.first(), found.last()), (Some(&"/workspace/a.js".into()), Some(&"/workspace/a.ts".into())));
        assert!(candidates(Path::new("/workspace/lib")).any(|path| path == Path::new("/workspace/lib/index.ts")));
    }
}
