//! `coracle users keys`: API keys for programs.

use super::list::ago;
use super::{existing, told};
use crate::output::{columns, json, plain};
use crate::status::Mistake;
use clap::{Args, Subcommand};
use coracle_accounts::{KeyMaker, People};
use coracle_server::{KeyView, key_state};
use coracle_store::{ApiKey, KeyScope};
use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// Maximum length of a printed name in characters.
const MAX_NAME: usize = 40;

#[derive(Debug, Args)]
pub(super) struct KeysArguments {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Create a key and print it. The key cannot be shown again.
    Add(AddArguments),
    /// List a user's keys with scopes, expiry and last use.
    List(ListArguments),
    /// Revoke a key permanently.
    Revoke(RevokeArguments),
}

#[derive(Debug, Args)]
struct AddArguments {
    /// User name of the key's owner.
    user: String,

    /// Name for the key, such as the program that uses it.
    #[arg(long)]
    name: String,

    /// Scopes of the key, separated by commas: mcp, api, admin, metrics, approve.
    #[arg(long = "scope", value_name = "SCOPE,…", value_delimiter = ',', default_value = "mcp,api", value_parser = KeyScope::from_str)]
    scopes: Vec<KeyScope>,

    /// Lifetime of the key, such as 90d, 12h or 30m. Without it, the key does not expire.
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires: Option<Duration>,
}

#[derive(Debug, Args)]
struct ListArguments {
    /// User name of the key's owner.
    user: String,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RevokeArguments {
    /// Key ID, as printed by `coracle users keys list`.
    id: String,
}

/// Parses a number with its unit.
fn lifetime(text: &str) -> Result<Duration, String> {
    let wrong = || "use a form such as 90d, 12h or 30m".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    let seconds = match unit {
        'd' => 86_400,
        'h' => 3_600,
        'm' => 60,
        _ => return Err(wrong()),
    };
    let seconds = number.checked_mul(seconds).filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

pub(super) async fn run(arguments: KeysArguments, people: &People) -> anyhow::Result<()> {
    match arguments.command {
        KeysCommand::Add(arguments) => {
            let owner = existing(people, &arguments.user).await?;
            let scopes: BTreeSet<KeyScope> = arguments.scopes.into_iter().collect();
            let (key, secret) = people
                .add_key(&owner, &arguments.name, scopes, arguments.expires, KeyMaker::Person)
                .await
                .map_err(told)?;
            eprintln!("created {} for {owner} ({}); it cannot be shown again:", key.id, words(&key));
            println!("{}", secret.expose());
        }
        KeysCommand::List(arguments) => {
            let owner = existing(people, &arguments.user).await?;
            list(&people.keys(&owner).await.map_err(told)?, arguments.json)?;
        }
        KeysCommand::Revoke(arguments) => {
            if !people.revoke_key(None, &arguments.id).await.map_err(told)? {
                let message = format!("there is no key {:?} to revoke", plain(&arguments.id, MAX_NAME));
                return Err(Mistake::new(message, Some("coracle users keys list NAME lists the keys")).into());
            }
            eprintln!("{} is revoked", arguments.id);
        }
    }
    Ok(())
}

fn words(key: &ApiKey) -> String {
    key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")
}

fn list(keys: &[ApiKey], as_json: bool) -> anyhow::Result<()> {
    let now = SystemTime::now();
    if as_json {
        let rows: Vec<KeyView> = keys.iter().map(|key| KeyView::of(key, now)).collect();
        print!("{}", json(&rows)?);
        return Ok(());
    }
    let head = ["ID", "STATE", "SCOPES", "LAST USED", "EXPIRES", "NAME"].map(str::to_owned);
    let rows = keys.iter().map(|key| {
        [
            key.id.clone(),
            key_state(key, now).to_owned(),
            words(key),
            key.last_used.map_or_else(|| "never".to_owned(), |used| ago(used, now)),
            key.expires_at.map_or_else(|| "never".to_owned(), |end| ahead(end, now)),
            plain(&key.name, MAX_NAME),
        ]
    });
    print!("{}", columns(std::iter::once(head).chain(rows)));
    Ok(())
}

/// Formats the time until a moment, rounded.
fn ahead(time: SystemTime, now: SystemTime) -> String {
    match time.duration_since(now).map(|left| left.as_secs()) {
        Err(_) => ago(time, now),
        Ok(seconds @ 0..7_200) => format!("in {} min", seconds / 60),
        Ok(seconds @ 7_200..172_800) => format!("in {} h", seconds / 3_600),
        Ok(seconds) => format!("in {} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::lifetime;
    use std::time::Duration;

    #[test]
    fn lifetimes_need_a_unit() {
        assert_eq!(lifetime("90d"), Ok(Duration::from_hours(24 * 90)));
        assert_eq!(lifetime("12h"), Ok(Duration::from_hours(12)));
        assert_eq!(lifetime("30m"), Ok(Duration::from_mins(30)));
        for wrong in ["", "d", "10", "-1d", "0d", "1y", "1é", "99999999999999999999d", "18446744073709551615d"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
