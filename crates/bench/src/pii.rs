//! `coracle bench pii`: how well and how fast personal data is found, beside Presidio on the same texts.

mod presidio;
mod report;
mod texts;

use crate::input_error::InputError;
use crate::outcome::Outcome;
use anyhow::Context;
use clap::Args;
use coracle_privacy::{Detector, DetectorSettings, Kind};
use presidio::Presidio;
use report::{Report, Row};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use texts::{Span, Text};

/// How long the texts are searched to measure the speed.
const MEASURED_FOR: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct PiiArguments {
    /// Labelled texts: a line of JSON each, with `text` and `spans` of `type`, `start` and `end` in characters [default:
    /// a built-in set].
    #[arg(long, value_name = "FILE")]
    dataset: Option<PathBuf>,

    /// Measure presidio-analyzer too. It is installed with pip into a virtual environment.
    #[arg(long)]
    presidio: bool,

    /// Folder of the virtual environment, which is kept and used again [default: a temporary one].
    #[arg(long, value_name = "DIR", requires = "presidio")]
    environment: Option<PathBuf>,

    /// Python interpreter for the virtual environment, 3.12 or later [default: the first on PATH].
    #[arg(long, value_name = "FILE", requires = "presidio")]
    python: Option<PathBuf>,

    /// List the texts in which something is missed or found by mistake, with the values.
    #[arg(long)]
    mistakes: bool,

    /// Print one line of JSON instead of tables.
    #[arg(long, conflicts_with = "mistakes")]
    json: bool,
}

pub(crate) async fn run(arguments: PiiArguments) -> anyhow::Result<Outcome> {
    let texts = match &arguments.dataset {
        Some(file) => texts::read(file).map_err(|error| InputError::at(file, error))?,
        None => texts::built_in()?,
    };
    let searched = texts.clone();
    let (own, mistakes) = tokio::task::spawn_blocking(move || search(&searched)).await.context("cannot search")??;
    let mut report =
        Report { texts: texts.len(), bytes: texts.iter().map(|text| text.text.len()).sum(), rows: vec![own] };
    if arguments.presidio {
        let presidio = Presidio::installed(arguments.environment.as_deref(), arguments.python.as_deref()).await?;
        report.rows.push(presidio.search(&texts).await?);
    }
    let is_good = report.is_good();
    let text = if arguments.json {
        serde_json::to_string(&report).context("cannot write the report")? + "\n"
    } else {
        let mut text = report.render();
        if arguments.mistakes {
            text.push('\n');
            text.push_str(&mistakes);
        }
        text
    };
    Ok(Outcome { text, is_good })
}

fn search(texts: &[Text]) -> anyhow::Result<(Row, String)> {
    let mut settings = DetectorSettings::default();
    settings.enable.push(Kind::Url);
    let detector = Detector::new(settings).context("cannot make the detector")?;
    let mut row = Row::new("coracle");
    let mut mistakes = String::new();
    for text in texts {
        let found: Vec<Span> = detector
            .find(&text.text)
            .into_iter()
            .map(|finding| Span { kind: finding.kind.label().to_owned(), span: finding.span })
            .collect();
        mistakes.push_str(&report::mistakes(text, &found));
        row.add(&text.spans, &found);
    }
    // The default settings, on one thread.
    let detector = Detector::default();
    let (begun, mut rounds) = (Instant::now(), 0_u32);
    while begun.elapsed() < MEASURED_FOR {
        for text in texts {
            std::hint::black_box(detector.find(std::hint::black_box(&text.text)));
        }
        rounds += 1;
    }
    row.took(begun.elapsed() / rounds, texts.iter().map(|text| text.text.len()).sum());
    Ok((row, mistakes))
}
