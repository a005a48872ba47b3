//! `coracle chat`: a conversation with the agent at the terminal.

mod input;

use crate::agent::{AgentArguments, Progress, Turn, Worker, choose, report_problem, runtime};
use crate::output::plain;
use crate::settings::{announce, load, warn_of_not_followed};
use crate::signals::Signals;
use crate::status::{Cancelled, Mistake, Status};
use crate::wiring::{cancellable, check};
use anyhow::Context as _;
use clap::Args;
use coracle_agent::RunJournal;
use coracle_config::Loaded;
use coracle_models::{Item, Part};
use coracle_runs::KeptConversation;
use coracle_server::SelectedTools;
use coracle_store::Place;
use coracle_types::{ConversationId, UserId};
use input::{Input, Line};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum length of a command's argument in a message, in characters.
const MAX_SHOWN: usize = 200;

const COMMANDS: &str = "\
/new           begin a new conversation
/model MODEL   go on with another model
/help          show this
/quit          end (Ctrl-D ends, too)
Ctrl-C stops an answer. A line that ends with \\ continues on the next one.
";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ChatArguments {
    /// First message.
    #[arg(value_name = "MESSAGE")]
    message: Option<String>,

    #[command(flatten)]
    agent: AgentArguments,

    /// Continue the conversation that was changed last.
    #[arg(long = "continue", short = 'c', conflicts_with = "conversation")]
    continues: bool,

    /// Continue this conversation.
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  coracle chat
  coracle chat --workspace . 'What does this project do?'
  coracle chat --continue

Conversations are kept in the data folder and can also be continued over /v1. Ctrl-C stops an answer, Ctrl-D ends the
chat. If standard input is not a terminal, each line of it is a message.";

pub(crate) fn run(arguments: &ChatArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let named = arguments.conversation.as_deref().map(ConversationId::new).transpose();
    let conversation =
        named.map_err(|error| Mistake::new(format!("--conversation: {error}"), Some("an ID begins with conv_")))?;
    let mut loaded = load(config, Vec::new())?;
    check(&loaded)?;
    let choice = cancellable(choose(&mut loaded, arguments.agent.model.as_deref()))?;
    warn_of_not_followed(&loaded);
    announce(&loaded);
    let runtime = runtime()?;
    let status = runtime.block_on(async {
        let signals = Signals::listen().context("cannot listen for signals")?;
        let worker = Worker::new(arguments.agent.serve(&loaded).await?, choice);
        let mut chat = Chat {
            worker,
            loaded,
            shows_work: !arguments.agent.quiet,
            items: Vec::new(),
            conversation: None,
            selected: SelectedTools::default(),
            signals,
            input: Input::new(),
        };
        let status = match chat.open(arguments.continues, conversation.as_ref()).await {
            Ok(()) => chat.talk(arguments.message.clone()).await,
            Err(error) => Err(error),
        };
        chat.worker.end().await;
        status
    });
    // Standard input may still be read.
    runtime.shutdown_background();
    status
}

/// A conversation under way.
struct Chat {
    worker: Worker,
    loaded: Loaded,
    shows_work: bool,
    /// What the model sees of the conversation.
    items: Vec<Item>,
    /// The stored conversation, from its first message on.
    conversation: Option<Arc<KeptConversation>>,
    /// The tools that were selected for the first message. They stay, so that requests begin alike.
    selected: SelectedTools,
    signals: Signals,
    input: Input,
}

impl Chat {
    /// Opens the conversation to continue, if there is one.
    async fn open(&mut self, continues: bool, id: Option<&ConversationId>) -> anyhow::Result<()> {
        if !continues && id.is_none() {
            return Ok(());
        }
        let found = KeptConversation::open(self.worker.store(), UserId::local(), id).await?;
        let Some((conversation, items)) = found else {
            let message = match id {
                Some(id) => format!("there is no conversation {id}"),
                None => "there is no conversation yet".to_owned(),
            };
            return Err(Mistake::new(message, Some("start one with coracle chat")).into());
        };
        let messages = items.iter().filter(|item| matches!(item, Item::User { .. })).count();
        eprintln!("continuing {}, with {messages} messages of yours", conversation.id());
        (self.conversation, self.items) = (Some(Arc::new(conversation)), items);
        Ok(())
    }

    async fn talk(&mut self, mut first: Option<String>) -> anyhow::Result<Status> {
        if self.input.is_terminal() {
            eprintln!("chatting with {}; /help shows the commands", plain(&self.worker.model(), MAX_SHOWN));
        }
        loop {
            let message = match first.take() {
                Some(message) => message,
                None => match self.input.line(&mut self.signals).await? {
                    Line::Text(text) => text,
                    Line::End => break,
                    Line::Killed => return Ok(Status::Cancelled),
                },
            };
            let (word, rest) = message.trim().split_once(char::is_whitespace).unwrap_or((message.trim(), ""));
            match word {
                "" => {}
                "/quit" | "/exit" => break,
                "/help" => eprint!("{COMMANDS}"),
                "/new" => {
                    (self.items, self.conversation) = (Vec::new(), None);
                    eprintln!("a new conversation");
                }
                "/model" => self.change_model(rest.trim()).await?,
                _ => {
                    if !self.answer(message).await? {
                        return Ok(Status::Cancelled);
                    }
                }
            }
        }
        if let Some(conversation) = self.conversation.as_ref().filter(|_| self.input.is_terminal()) {
            eprintln!("to go on later: coracle chat --conversation {}", conversation.id());
        }
        Ok(Status::Success)
    }

    async fn change_model(&mut self, name: &str) -> anyhow::Result<()> {
        if name.is_empty() {
            eprintln!("the model is {}", plain(&self.worker.model(), MAX_SHOWN));
            return Ok(());
        }
        match choose(&mut self.loaded, Some(name)).await {
            Ok(choice) => {
                self.worker.change_model(choice);
                eprintln!("going on with {}", plain(&self.worker.model(), MAX_SHOWN));
            }
            Err(error) if error.is::<Cancelled>() => return Err(error),
            Err(error) => eprintln!("error: {error}"),
        }
        Ok(())
    }

    /// Answers a message. Returns false if a signal ends the program.
    async fn answer(&mut self, message: String) -> anyhow::Result<bool> {
        let conversation = if let Some(conversation) = &self.conversation {
            Arc::clone(conversation)
        } else {
            self.selected = self.worker.select(&message).await;
            let made = KeptConversation::create(self.worker.store(), UserId::local(), &message).await?;
            Arc::clone(self.conversation.insert(Arc::new(made)))
        };
        let item = Item::User { parts: vec![Part::text(message)] };
        conversation.begin(&item).await?;
        self.items.push(item);
        let cancel = CancellationToken::new();
        let journal: Arc<dyn RunJournal> = Arc::<KeptConversation>::clone(&conversation);
        let working = self.worker.work(Turn {
            items: self.items.clone(),
            selected: self.selected.clone(),
            cancel: cancel.clone(),
            conversation: Place::conversation(conversation.id()),
            journal: Some(journal),
            progress: Progress::new(true, self.shows_work),
        });
        tokio::pin!(working);
        let mut goes_on = true;
        let outcome = loop {
            tokio::select! {
                outcome = &mut working => break outcome?,
                is_interrupt = self.signals.next_is_interrupt() => {
                    // The second one does not wait for anything. The launcher cleans up.
                    if cancel.is_cancelled() {
                        std::process::exit(Status::Cancelled.code().into());
                    }
                    goes_on = is_interrupt && self.input.is_terminal();
                    cancel.cancel();
                }
            }
        };
        conversation.end(&outcome).await?;
        match outcome.compacted.clone() {
            Some(shorter) => self.items = shorter,
            None => self.items.extend(outcome.items.iter().cloned()),
        }
        report_problem(&outcome.ended);
        Ok(goes_on)
    }
}
