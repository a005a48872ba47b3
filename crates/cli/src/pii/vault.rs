//! `coracle pii sanitize` and `coracle pii restore`, with the vault of the local user.

use crate::settings::load;
use crate::status::Status;
use crate::wiring::{cancellable, privacy, store};
use anyhow::{Context, bail};
use coracle_privacy::UserVault;
use coracle_types::UserId;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Maximum length of a text, in bytes.
const MAX_TEXT: u64 = 256 << 20;

pub(super) fn sanitize(file: &Path, config: Option<&Path>) -> anyhow::Result<Status> {
    with_vault(config, async |vault| {
        let mut text = read(file)?;
        // In JSON, keys say what their values are.
        match serde_json::from_str::<Value>(&text) {
            Ok(mut value) if value.is_object() || value.is_array() => {
                vault.learn(&value).map_err(told)?;
                vault.tokenize_json(&mut value).await.map_err(told)?;
                text = format!("{value:#}\n");
            }
            _ => drop(vault.tokenize_text(&mut text).await.map_err(told)?),
        }
        Ok(text)
    })
}

pub(super) fn restore(file: &Path, config: Option<&Path>) -> anyhow::Result<Status> {
    with_vault(config, async |vault| {
        let mut text = read(file)?;
        match serde_json::from_str::<Value>(&text) {
            Ok(mut value) if value.is_object() || value.is_array() => {
                vault.restore_json(&mut value).await.map_err(told)?;
                text = format!("{value:#}\n");
            }
            _ => drop(vault.restore_text(&mut text).await.map_err(told)?),
        }
        Ok(text)
    })
}

fn with_vault(
    config: Option<&Path>,
    work: impl AsyncFnOnce(Arc<UserVault>) -> anyhow::Result<String>,
) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    let text = cancellable(async {
        let privacy = privacy(&loaded.settings, store().await?)?;
        let vault = privacy.vault(&UserId::local()).await.map_err(told)?;
        work(vault).await
    })?;
    io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Success)
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let reader: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).with_context(|| format!("cannot read {}", file.display()))?)
    };
    reader.take(MAX_TEXT + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {}", file.display()))?;
    if bytes.len() as u64 > MAX_TEXT {
        bail!("{} is longer than {MAX_TEXT} bytes", file.display());
    }
    String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", file.display()))
}

/// An error of the vault with its hint.
fn told(error: coracle_privacy::PrivacyError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => anyhow::anyhow!("{error}\nhint: {hint}"),
        None => error.into(),
    }
}
