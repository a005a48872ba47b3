//! `coracle users`: user accounts and API keys for `coracle up`.

mod export;
mod keys;
mod list;
mod password;
mod remove;
mod rename;

use crate::audit::Audit;
use crate::listening::{addresses, reachable};
use crate::settings::load;
use crate::status::{Mistake, Status};
use crate::wiring::{runtime, store};
use clap::{Args, Subcommand};
use coracle_accounts::{AccountError, LINK_LIFETIME, MIN_PASSWORD_CHARS, NameSource, People, new_user_name, user_name};
use coracle_config::Loaded;
use coracle_engine::Belongings;
use coracle_store::{ForeignIdentity, Role, User};
use coracle_types::{Secret, UserId};
pub(crate) use rename::warn_of_old_names;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UsersArguments {
    #[command(subcommand)]
    command: UsersCommand,
}

const AFTER_HELP: &str = "\
Examples:
  coracle users add ann                        add a user and print a one-time sign-in link
  coracle users add bob --admin --password     add an admin and prompt for a password
  coracle users keys add ann --name laptop     create an API key; it is shown only once
  coracle users rename ann annie               rename a user; files, sessions and keys are kept
  coracle users disable ann                    block sign-in and all keys of a user
  coracle users export ann --to ann.tar        write everything that a user has to a file
  coracle users remove ann                     delete a user with everything that they have";

#[derive(Debug, Subcommand)]
enum UsersCommand {
    /// Add a user. Prints a one-time sign-in link unless a password or --oidc-subject is given.
    Add(AddArguments),
    /// List users with role, last activity and workspace size.
    List(list::ListArguments),
    /// Disable a user: browser sessions, sign-in links and keys stop working. Files are kept.
    Disable(NameArguments),
    /// Enable a disabled user.
    Enable(NameArguments),
    /// Write everything that a user has to a tar archive: conversations, sessions, files and more, without secrets.
    Export(export::ExportArguments),
    /// Delete a user with all keys, conversations, sessions, skills, artifacts and the workspace, also from the disk.
    #[command(visible_alias = "delete")]
    Remove(remove::RemoveArguments),
    /// Set a user's password and sign out all their browsers.
    Passwd(PasswdArguments),
    /// Print a sign-in link for a user. The link works once and expires after 24 hours.
    Link(NameArguments),
    /// Rename a user. Files, sessions and keys are kept, and the user is signed out. Stop `coracle up` first.
    Rename(rename::RenameArguments),
    /// Manage API keys for programs.
    Keys(keys::KeysArguments),
}

#[derive(Debug, Args)]
struct AddArguments {
    /// User name: letters, digits, '-', '_' and '.'; converted to lower case.
    name: String,

    /// Let the user manage other accounts.
    #[arg(long)]
    admin: bool,

    /// Display name, such as a full name.
    #[arg(long, value_name = "NAME")]
    display_name: Option<String>,

    /// Prompt for a password.
    #[arg(long, conflicts_with = "password_stdin")]
    password: bool,

    /// Read the password from the first line of standard input.
    #[arg(long)]
    password_stdin: bool,

    /// Subject (`sub` claim) of the user at the configured OpenID provider.
    #[arg(long, value_name = "SUB")]
    oidc_subject: Option<String>,
}

#[derive(Debug, Args)]
struct NameArguments {
    /// User name.
    name: String,
}

#[derive(Debug, Args)]
struct PasswdArguments {
    /// User name.
    name: String,

    /// Read the password from the first line of standard input instead of prompting.
    #[arg(long)]
    password_stdin: bool,
}

pub(crate) fn run(arguments: UsersArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    runtime()?.block_on(async {
        let store = store().await?;
        let people = People::new(Arc::clone(&store)).with_audit(Audit::new(&loaded, Some(&store))?.log());
        match arguments.command {
            UsersCommand::Add(arguments) => add(&arguments, &people, &loaded).await?,
            UsersCommand::List(arguments) => list::run(&arguments, &people, &loaded).await?,
            UsersCommand::Disable(arguments) => {
                let name = existing(&people, &arguments.name).await?;
                people.set_disabled(&name, true).await.map_err(told)?;
                eprintln!("{name} is disabled");
            }
            UsersCommand::Enable(arguments) => {
                let name = existing(&people, &arguments.name).await?;
                people.set_disabled(&name, false).await.map_err(told)?;
                eprintln!("{name} is enabled");
            }
            UsersCommand::Export(arguments) => export::run(&arguments, &people, &loaded).await?,
            UsersCommand::Remove(arguments) => return remove::run(&arguments, &people, &loaded).await,
            UsersCommand::Passwd(arguments) => {
                let name = existing(&people, &arguments.name).await?;
                let password = if arguments.password_stdin { password::from_stdin()? } else { password::asked()? };
                people.set_password(&name, &password).await.map_err(told)?;
                eprintln!("the password of {name} was set, and all their browsers were signed out");
            }
            UsersCommand::Link(arguments) => {
                let name = existing(&people, &arguments.name).await?;
                print_link(&people, &name, &loaded).await?;
            }
            UsersCommand::Rename(arguments) => rename::run(&arguments, &people, &loaded).await?,
            UsersCommand::Keys(arguments) => keys::run(arguments, &people).await?,
        }
        Ok(Status::Success)
    })
}

/// Normalizes a name from the command line.
fn named(text: &str) -> anyhow::Result<UserId> {
    user_name(text).map_err(told)
}

/// Normalizes the name of an existing user.
async fn existing(people: &People, text: &str) -> anyhow::Result<UserId> {
    Ok(people.find(&named(text)?).await.map_err(told)?.id)
}

/// Checks that a user has an account or any data.
async fn known(people: &People, belongings: &Belongings, name: &UserId) -> anyhow::Result<()> {
    let is_local = *name == UserId::local();
    if is_local || belongings.has_files(name) || people.store().has_data(name).await? {
        return Ok(());
    }
    people.find(name).await.map(drop).map_err(told)
}

/// Converts an error, as a usage error if it is one.
pub(crate) fn told(error: AccountError) -> anyhow::Error {
    let hint = match &error {
        AccountError::Store(_) | AccountError::Machine(_) => return error.into(),
        AccountError::Audit(reason) => return anyhow::anyhow!("{error}\nhint: {}", reason.hint()),
        AccountError::Unknown(_) => Some("coracle users list lists the users"),
        AccountError::Reserved(_) => Some("choose another name"),
        AccountError::Taken(_) => Some("use coracle users passwd or coracle users link for an existing user"),
        AccountError::Disabled(_) => Some("coracle users enable enables the user"),
        _ => None,
    };
    Mistake::new(error, hint).into()
}

async fn add(arguments: &AddArguments, people: &People, loaded: &Loaded) -> anyhow::Result<()> {
    let name = new_user_name(&arguments.name, NameSource::Operator).map_err(told)?;
    let role = if arguments.admin { Role::Admin } else { Role::User };
    let password = match (arguments.password, arguments.password_stdin) {
        (_, true) => Some(password::from_stdin()?),
        (true, _) => Some(password::asked()?),
        _ => None,
    };
    let foreign = match (&arguments.oidc_subject, &loaded.settings.server.oidc.issuer) {
        (None, _) => None,
        (Some(subject), Some(issuer)) => Some(ForeignIdentity { issuer: issuer.clone(), subject: subject.clone() }),
        (Some(_), None) => {
            let hint = Some("set server.oidc.issuer to the provider's address");
            return Err(Mistake::new("--oidc-subject: no OpenID provider is configured", hint).into());
        }
    };
    let display_name = arguments.display_name.clone();
    let user = User { display_name, foreign, ..User::new(name, role, SystemTime::now()) };
    let user = people.add(user, password.as_ref()).await.map_err(told)?;
    eprintln!("added {}{}", user.id, if role == Role::Admin { ", as an admin" } else { "" });
    if user.password.is_none() && user.foreign.is_none() {
        print_link(people, &user.id, loaded).await?;
    }
    Ok(())
}

async fn print_link(people: &People, name: &UserId, loaded: &Loaded) -> anyhow::Result<()> {
    let token = people.link(name).await.map_err(told)?;
    let hours = LINK_LIFETIME.as_secs() / 3600;
    eprintln!("this link signs {name} in once, within {hours} hours:");
    println!("{}", link(&base(loaded), &token));
    Ok(())
}

/// Address of a sign-in link.
pub(crate) fn link(base: &str, token: &Secret) -> String {
    format!("{base}/sign-in/{}", token.expose())
}

/// Address of the server, according to the settings.
fn base(loaded: &Loaded) -> String {
    let server = &loaded.settings.server;
    if let Some(url) = &server.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    if let Some(address) = server.listen.first().and_then(|_| addresses(loaded).ok()?.first().copied()) {
        return format!("http://{}", reachable(address));
    }
    let host = match server.host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => "localhost".to_owned(),
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        Ok(IpAddr::V4(address)) => address.to_string(),
        Err(_) => server.host.clone(),
    };
    format!("http://{host}:{}", server.port)
}

/// Password rule, for people.
fn rule() -> String {
    format!("at least {MIN_PASSWORD_CHARS} characters")
}
