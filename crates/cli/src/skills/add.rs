use super::said;
use crate::output::plain;
use crate::status::{Mistake, Status};
use anyhow::Context;
use clap::Args;
use coracle_config::Loaded;
use coracle_engine::{Engine, MAX_SKILL_BYTES, SkillDraft, SkillFolder, SkillLanguage, split_tags};
use coracle_types::UserId;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Limits of a skill folder: number of files, total size in bytes and depth.
const MAX_FILES: usize = 2_000;
const MAX_BYTES: u64 = 100 << 20;
const MAX_DEPTH: usize = 10;

const MAX_WARNING: usize = 500;

#[derive(Debug, Args)]
pub(super) struct AddArguments {
    /// Python or TypeScript file (.py, .ts), or folder with a SKILL.md.
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Module name to import the code by [default: the file name without its extension].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Short description of the skill.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,

    /// Tags for searching, separated by commas.
    #[arg(long, value_name = "TAG,…", default_value = "")]
    tags: String,

    /// Program that uses the skill. The skill is saved only if this program succeeds in a sandbox.
    #[arg(long, value_name = "FILE")]
    example: Option<PathBuf>,

    /// Tools that the skill calls, as SERVER.TOOL, separated by commas [default: detected from its imports].
    #[arg(long, value_name = "TOOL,…", value_delimiter = ',')]
    tools: Option<Vec<String>>,
}

pub(super) async fn run(
    arguments: &AddArguments,
    engine: &Engine,
    user: &UserId,
    loaded: &Loaded,
) -> anyhow::Result<Status> {
    if arguments.path.is_dir() {
        return add_folder(&arguments.path, loaded);
    }
    let (stem, language) = kind(&arguments.path)?;
    let draft = SkillDraft {
        name: arguments.name.clone().unwrap_or(stem),
        code: text(&arguments.path)?,
        language,
        description: arguments.description.clone(),
        tags: split_tags(&arguments.tags),
        author: None,
        tools: arguments.tools.clone(),
        example: arguments.example.as_deref().map(text).transpose()?,
    };
    let saved = engine.save_skill(user, draft).await.map_err(said)?;
    let tested = if saved.example.is_some() { ", and its example succeeded" } else { "" };
    eprintln!("saved {} (version {}){tested}", saved.name, saved.version);
    Ok(Status::Success)
}

fn kind(path: &Path) -> anyhow::Result<(String, SkillLanguage)> {
    let language = match path.extension().and_then(|ending| ending.to_str()) {
        Some("py") => SkillLanguage::Python,
        Some("ts") => SkillLanguage::Typescript,
        _ => {
            let hint = "use a .py or .ts file, or a folder with a SKILL.md";
            return Err(Mistake::new(format!("{} is neither code nor a folder", path.display()), Some(hint)).into());
        }
    };
    Ok((path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned(), language))
}

fn text(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    // One more byte shows whether there is more.
    file.take(MAX_SKILL_BYTES as u64 + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text)
}

fn add_folder(path: &Path, loaded: &Loaded) -> anyhow::Result<Status> {
    let skill = SkillFolder::check(path).map_err(|reason| {
        let hint = "a SKILL.md starts with a name and a description between two lines of ---: see agentskills.io";
        Mistake::new(format!("{} is not a skill: {reason}", path.display()), Some(hint))
    })?;
    for warning in &skill.warnings {
        eprintln!("warning: {}", plain(warning, MAX_WARNING));
    }
    let place = match &loaded.settings.execution.skills_dir {
        Some(folder) => folder.clone(),
        None => std::env::home_dir().context("cannot find the home folder")?.join(".agents").join("skills"),
    };
    let target = place.join(&skill.folder);
    if target.exists() {
        let hint = format!("`coracle skills remove {}` removes it", skill.name);
        return Err(Mistake::new(format!("{} already exists", target.display()), Some(hint)).into());
    }
    fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
    // Copied aside and renamed, so that it is never read half-written.
    let aside = tempfile::Builder::new().prefix(".adding-").tempdir_in(&place).context("cannot create a folder")?;
    let whole = aside.path().join(&skill.folder);
    let mut room = Room { files: MAX_FILES, bytes: MAX_BYTES };
    copy(&skill.path, &whole, 0, &mut room)?;
    fs::rename(&whole, &target).with_context(|| format!("cannot write {}", target.display()))?;
    File::open(&place)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("cannot write {}", place.display()))?;
    eprintln!("added {} as {}", skill.name, target.display());
    Ok(Status::Success)
}

struct Room {
    files: usize,
    bytes: u64,
}

/// Copies files and folders. Links are skipped with a warning.
fn copy(from: &Path, to: &Path, depth: usize, room: &mut Room) -> anyhow::Result<()> {
    if depth > MAX_DEPTH {
        anyhow::bail!("{} is nested too deeply for a skill", from.display());
    }
    fs::create_dir(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot list {}", from.display()))?;
        let (kind, source, target) = (entry.file_type()?, entry.path(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&source, &target, depth + 1, room)?;
        } else if kind.is_file() {
            let bytes = fs::copy(&source, &target).with_context(|| format!("cannot copy {}", source.display()))?;
            File::open(&target)?.sync_all().with_context(|| format!("cannot write {}", target.display()))?;
            room.files = room.files.checked_sub(1).context("the skill has too many files")?;
            room.bytes = room.bytes.checked_sub(bytes).context("the skill is too large")?;
        } else {
            eprintln!(
                "warning: {}: skipped, because it is a link or a special file",
                plain(&source.display().to_string(), MAX_WARNING)
            );
        }
    }
    Ok(())
}
