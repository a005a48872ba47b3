//! A folder with a `SKILL.md`, according to the open specification of Agent Skills (agentskills.io). It is read leniently,
//! with warnings about what violates the specification.
//!
//! Trust boundary: the content may come from anywhere. Sizes are limited, and links that lead out of the folder are not
//! followed.

use super::SkillError;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Maximum size of a `SKILL.md`, and of any other file of a skill that is returned.
pub const MAX_BODY_BYTES: u64 = 256 << 10;

/// Maximum size of the front matter of a `SKILL.md`.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Limits of the specification.
const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1024;
const MAX_COMPATIBILITY_CHARS: usize = 500;

/// Limits that are not in the specification: longer values are cut.
const MAX_OTHER_CHARS: usize = 500;
const MAX_ENTRIES: usize = 50;

/// Maximum number of files in a list, and their maximum depth.
const MAX_FILES: usize = 100;
const MAX_DEPTH: usize = 4;

/// Names that the file may have, in order of preference.
const FILES: [&str; 3] = ["SKILL.md", "Skill.md", "skill.md"];

/// Origin of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The operator's folder, `execution.skills_dir`.
    Configured,
    /// The project in the current folder.
    Project,
    /// The home folder of the user who runs Coracle.
    User,
    /// Coracle itself.
    Builtin,
}

/// A skill in a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillFolder {
    /// Name in the front matter, or else the name of the folder.
    pub name: String,
    /// Name of the folder.
    pub folder: String,
    /// What the skill does, and when to use it.
    pub description: String,
    /// When to use the skill, if that is described separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_when: Option<String>,
    /// Version, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// License, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Requirements on the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// Tools that the skill was written for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Python packages that the skill requires, such as `package>=1.0`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// Other metadata.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Origin of the skill.
    pub origin: Origin,
    /// Violations of the specification.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Folder on the host.
    #[serde(skip)]
    pub path: PathBuf,
    /// Name of its `SKILL.md`.
    #[serde(skip)]
    pub file: &'static str,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillFile {
    /// Name of the skill.
    pub name: String,
    /// Path of the file, below the folder of the skill.
    pub path: String,
    /// Path of the file as code sees it.
    pub location: String,
    /// Content of the file; for the `SKILL.md`, without the front matter.
    pub content: String,
    /// Other files of the skill.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Violations of the specification.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl SkillFolder {
    /// Reads the front matter of a folder's `SKILL.md`. `None` if there is none, and an error if it cannot be used.
    pub(super) fn read(path: &Path, folder: &str, origin: Origin) -> Option<Result<Self, String>> {
        let root = open_folder(path).ok()?;
        let (file, text) = FILES.iter().find_map(|file| match read_beneath(&root, file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            outcome => Some((*file, outcome)),
        })?;
        let parsed = text.map_err(|error| error.to_string()).and_then(|text| {
            let (head, body) = split(&text).ok_or("it does not begin with a head between two lines of ---")?;
            let mut skill = Self::parse(head, folder)?;
            skill.use_when = skill.use_when.or_else(|| when_to_use(body));
            Ok(skill)
        });
        Some(parsed.map(|parsed| Self { origin, path: path.to_owned(), file, ..parsed }))
    }

    /// Checks that a folder can be used as a skill. The error says why it cannot.
    pub fn check(path: &Path) -> Result<Self, String> {
        let path = path.canonicalize().map_err(|error| error.to_string())?;
        let folder = path.file_name().and_then(|name| name.to_str()).ok_or("its name is not valid UTF-8")?.to_owned();
        Self::read(&path, &folder, Origin::User).unwrap_or_else(|| Err("there is no SKILL.md in it".to_owned()))
    }

    fn parse(head: &str, folder: &str) -> Result<Self, String> {
        if head.len() > MAX_HEAD_BYTES {
            return Err(format!("its head is longer than {MAX_HEAD_BYTES} bytes"));
        }
        let mut warnings = Vec::new();
        let fields = fields(head, &mut warnings)?;
        let mut text = |key: &str, most: usize| -> Option<String> {
            let text = plain(fields.get(key)?)?;
            if text.chars().count() > most {
                warnings.push(format!("`{key}` is longer than {most} characters"));
            }
            Some(text.chars().take(most).collect())
        };
        let name = text("name", MAX_NAME_CHARS);
        let description = text("description", MAX_DESCRIPTION_CHARS).ok_or("it has no `description`")?;
        let use_when = text("when_to_use", MAX_DESCRIPTION_CHARS).or_else(|| text("use_when", MAX_DESCRIPTION_CHARS));
        let compatibility = text("compatibility", MAX_COMPATIBILITY_CHARS);
        let (license, version) = (text("license", MAX_OTHER_CHARS), text("version", MAX_OTHER_CHARS));
        match &name {
            None => warnings.push("it has no `name`: the name of its folder is taken".to_owned()),
            Some(name) => {
                warnings.extend(wrong_name(name));
                if name != folder {
                    warnings.push(format!("its `name` is {name:?}, and its folder is called {folder:?}"));
                }
            }
        }
        let mut metadata = BTreeMap::new();
        match fields.get("metadata") {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                for (key, value) in map.iter().take(MAX_ENTRIES) {
                    let value = plain(value).unwrap_or_else(|| value.to_string());
                    metadata.insert(cut(key), cut(&value));
                }
            }
            Some(_) => warnings.push("its `metadata` is not a map".to_owned()),
        }
        Ok(Self {
            name: name.unwrap_or_else(|| folder.to_owned()),
            folder: folder.to_owned(),
            description,
            use_when,
            version: version.or_else(|| metadata.get("version").cloned()),
            license,
            compatibility,
            allowed_tools: words(fields.get("allowed-tools"), &[' ', ',']),
            dependencies: words(fields.get("dependencies"), &[',']),
            metadata,
            origin: Origin::Builtin,
            warnings,
            path: PathBuf::new(),
            file: "SKILL.md",
        })
    }

    /// Path of the `SKILL.md` as code sees it.
    pub fn location(&self) -> String {
        format!("/skills/{}/{}", self.folder, self.file)
    }

    /// The body of the `SKILL.md`, or a file below the folder.
    pub(super) fn get(&self, path: Option<&str>) -> Result<SkillFile, SkillError> {
        let wanted = path.map(|path| path.trim_start_matches("./")).filter(|path| !path.is_empty());
        let wanted = wanted.unwrap_or(self.file);
        let wrong = |reason: String| SkillError::NoFile {
            name: self.name.clone(),
            path: wanted.chars().take(MAX_OTHER_CHARS).collect(),
            reason,
        };
        let root = open_folder(&self.path).map_err(|error| wrong(error.to_string()))?;
        let text = read_beneath(&root, wanted).map_err(|error| {
            let files = self.files();
            let there = if files.is_empty() { String::new() } else { format!("; there are: {}", files.join(", ")) };
            wrong(format!("{error}{there}"))
        })?;
        let is_body = wanted == self.file;
        let content = if is_body { split(&text).map_or(text.as_str(), |(_, body)| body).to_owned() } else { text };
        Ok(SkillFile {
            name: self.name.clone(),
            path: wanted.to_owned(),
            location: format!("/skills/{}/{wanted}", self.folder),
            content,
            files: if is_body { self.files() } else { Vec::new() },
            warnings: if is_body { self.warnings.clone() } else { Vec::new() },
        })
    }

    /// The other files below the folder, sorted; links are left out.
    pub fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![(self.path.clone(), String::new(), 0)];
        while let Some((folder, prefix, depth)) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten().take(10 * MAX_FILES) {
                let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
                if name.starts_with('.') || name.chars().any(coracle_types::is_hidden) {
                    continue;
                }
                let path = format!("{prefix}{name}");
                if kind.is_dir() && depth < MAX_DEPTH {
                    folders.push((entry.path(), format!("{path}/"), depth + 1));
                } else if kind.is_file() && path != self.file {
                    found.push(path);
                }
            }
            if found.len() >= MAX_FILES {
                break;
            }
        }
        found.sort();
        found.truncate(MAX_FILES);
        found
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Reads a text file beneath a folder. Anything else is an error, and so is a link that leads out of the folder.
fn read_beneath(root: &OwnedFd, path: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let opened = rustix::fs::openat2(root, path, flags, Mode::empty(), resolve).map_err(|errno| match errno {
        rustix::io::Errno::XDEV => io::Error::other("it is not in the folder of the skill"),
        other => other.into(),
    })?;
    let file = File::from(opened);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BODY_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BODY_BYTES {
        return Err(io::Error::other(format!("it is longer than {MAX_BODY_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text in UTF-8"))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Front matter and body of a `SKILL.md`.
fn split(text: &str) -> Option<(&str, &str)> {
    let first = text.split_inclusive('\n').next()?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut at = first.len();
    for line in text.get(at..)?.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((text.get(first.len()..at)?, text.get(at + line.len()..)?.trim_start_matches(['\r', '\n'])));
        }
        at += line.len();
    }
    None
}

/// The section `## When to Use This Skill`, or one with a similar title, in one line: the items of its list, or its first
/// paragraph.
fn when_to_use(body: &str) -> Option<String> {
    let mut lines = body.lines().map(str::trim).skip_while(|line| {
        let title = line.trim_start_matches('#');
        let is_title = title.len() < line.len() && title.starts_with(' ');
        let title = title.trim().trim_end_matches([':', '?']).to_lowercase();
        !(is_title && (title == "when to use" || title.starts_with("when to use this") || title == "use when"))
    });
    lines.next()?;
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with('#')).collect();
    let point = |line: &&str| {
        let mark = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark));
        let number =
            || line.split_once([')', '.']).filter(|(number, _)| number.parse::<u32>().is_ok()).map(|(_, rest)| rest);
        mark.or_else(number).map(|rest| rest.replace("**", "").trim().trim_end_matches(['.', ';']).to_owned())
    };
    let points: Vec<String> = section.iter().filter_map(point).filter(|point| !point.is_empty()).collect();
    let text = if points.is_empty() {
        let paragraph = section.iter().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
        paragraph.copied().collect::<Vec<_>>().join(" ")
    } else {
        points.join("; ")
    };
    let text: String = text.chars().filter(|c| !c.is_control()).take(MAX_DESCRIPTION_CHARS).collect();
    (!text.is_empty()).then_some(text)
}

/// The fields of the front matter. An unquoted value with a colon is not valid YAML, but is accepted, as by other clients.
fn fields(head: &str, warnings: &mut Vec<String>) -> Result<serde_json::Map<String, Value>, String> {
    let parsed = match parse(head) {
        Ok(value) => value,
        Err(error) => match parse(&quoted(head)) {
            Ok(value) => {
                warnings.push("its head is YAML only if the values with a colon in them are put in quotes".to_owned());
                value
            }
            Err(_) => return Err(format!("its head is no YAML: {error}")),
        },
    };
    match parsed {
        Value::Object(fields) => Ok(fields),
        _ => Err("its head is not a map of fields".to_owned()),
    }
}

fn parse(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 16,
            flow_nesting_limit: 16,
            max_nodes: 2_000,
            max_events: 8_000,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 2_000 },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<Value>(text, options)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().chars().take(200).collect())
}

/// Quotes one-line values that contain a colon.
fn quoted(head: &str) -> String {
    let line = |line: &str| -> String {
        let Some((key, value)) = line.split_once(": ") else { return line.to_owned() };
        let value = value.trim();
        let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        if !is_key || !value.contains(':') || value.starts_with(['"', '\'', '{', '[', '|', '>', '&', '*', '!']) {
            return line.to_owned();
        }
        format!("{key}: '{}'", value.replace('\'', "''"))
    };
    head.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A scalar as text; `None` for anything else.
fn plain(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    let text: String = text.chars().map(|c| if coracle_types::is_hidden(c) { ' ' } else { c }).collect();
    (!text.is_empty()).then_some(text)
}

/// A list, or a text with separators.
fn words(value: Option<&Value>, separators: &[char]) -> Vec<String> {
    let all: Vec<String> = match value {
        Some(Value::Array(items)) => items.iter().filter_map(plain).collect(),
        Some(value) => plain(value).map(|text| split_outside_brackets(&text, separators)).unwrap_or_default(),
        None => Vec::new(),
    };
    all.iter().map(|word| cut(word.trim())).filter(|word| !word.is_empty()).take(MAX_ENTRIES).collect()
}

/// Splits a list of tools: `Bash(git add:*) Read` has two.
fn split_outside_brackets(text: &str, separators: &[char]) -> Vec<String> {
    let (mut all, mut depth, mut word) = (Vec::new(), 0_usize, String::new());
    for c in text.chars() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && separators.contains(&c) {
            all.push(std::mem::take(&mut word));
        } else {
            word.push(c);
        }
    }
    all.push(word);
    all
}

fn cut(text: &str) -> String {
    text.chars().filter(|c| !coracle_types::is_hidden(*c)).take(MAX_OTHER_CHARS).collect()
}

/// Violations of the specification by a name. Such skills can be used nevertheless.
fn wrong_name(name: &str) -> Option<String> {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let wrong = if !name.chars().all(letters) {
        "has other characters than a-z, 0-9 and hyphens"
    } else if name.starts_with('-') || name.ends_with('-') {
        "begins or ends with a hyphen"
    } else if name.contains("--") {
        "has two hyphens side by side"
    } else {
        return None;
    };
    Some(format!("its `name` {name:?} {wrong}"))
}

#[cfg(test)]
mod tests;
