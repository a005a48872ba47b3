//! The agent in this process, which `coracle task` and `coracle chat` work with.

mod choice;
mod ended;
mod progress;

use crate::frontend::{FrontendArguments, ServerSet, Serving};
use crate::output::quoted;
use crate::terminal::Terminal;
use anyhow::Context as _;
pub(crate) use choice::{Choice, choose};
use clap::Args;
use coracle_accounts::People;
use coracle_agent::{Agent, RunJournal, RunOutcome, RunRequest};
use coracle_config::Loaded;
use coracle_models::{ChosenModel, Item, ModelRequest};
use coracle_server::{AgentOptions, FrontendTools, SelectedTools, within_daily_tokens, without_personal_data};
use coracle_store::{Place, Store};
use coracle_types::UserId;
pub(crate) use ended::{limit_code, problem, report_problem, status};
pub(crate) use progress::Progress;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Events of a run that may wait to be shown.
const MAX_WAITING_EVENTS: usize = 256;

/// Options of all commands with an agent.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Model to use, such as anthropic/claude-sonnet-5 or ollama/qwen3; see coracle models [default: the
    /// agent.default_model setting, or the only model of the only model server on this machine].
    #[arg(long, short = 'm', value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Folder to use as /workspace instead of the user's own workspace.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,

    /// Allow a home folder or / as --workspace. Code can then read and change everything in it except Coracle's data
    /// folder.
    #[arg(long, requires = "workspace")]
    expose_home: bool,

    /// Show only the answer, not the code and its output.
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
}

impl AgentArguments {
    /// Starts the engine and its front end.
    pub(crate) async fn serve(&self, loaded: &Loaded) -> anyhow::Result<Serving> {
        let frontend = FrontendArguments {
            profile: None,
            tools: None,
            workspace: self.workspace.clone(),
            expose_home: self.expose_home,
            require_full_isolation: false,
        };
        Serving::start(&frontend, loaded, None, ServerSet::Fixed, "agent").await
    }
}

/// The runtime of the commands with an agent.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

/// An agent with its engine and its model.
pub(crate) struct Worker {
    serving: Serving,
    options: AgentOptions,
    chosen: ChosenModel,
}

/// One task for the agent.
pub(crate) struct Turn {
    /// The conversation, with the message of the user at its end.
    pub(crate) items: Vec<Item>,
    /// The tools that were selected for the task.
    pub(crate) selected: SelectedTools,
    /// Stops the run.
    pub(crate) cancel: CancellationToken,
    /// Where what code returns stays.
    pub(crate) conversation: Place,
    /// Records the progress.
    pub(crate) journal: Option<Arc<dyn RunJournal>>,
    /// Shows the progress.
    pub(crate) progress: Progress,
}

impl Worker {
    pub(crate) fn new(serving: Serving, choice: Choice) -> Self {
        let Choice { options, chosen } = choice;
        Self { serving, options, chosen }
    }

    /// The name of the model.
    pub(crate) fn model(&self) -> String {
        self.chosen.name()
    }

    /// Uses another model from now on.
    pub(crate) fn change_model(&mut self, choice: Choice) {
        let Choice { options, chosen } = choice;
        (self.options, self.chosen) = (options, chosen);
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.serving.store)
    }

    /// The tools that the catalogue selects for a task.
    pub(crate) async fn select(&self, task: &str) -> SelectedTools {
        SelectedTools::of(&self.serving.frontend, task).await
    }

    /// Works until the model is done, and shows how.
    pub(crate) async fn work(&self, turn: Turn) -> anyhow::Result<RunOutcome> {
        let Turn { items, selected, cancel, conversation, journal, mut progress } = turn;
        let ChosenModel { provider, provider_name, model, .. } = &self.chosen;
        let people = People::new(self.store());
        let provider = within_daily_tokens(Arc::clone(provider), &people, &UserId::local(), self.options.daily_tokens);
        let provider = without_personal_data(provider, &self.serving.engine, &UserId::local());
        let tools = FrontendTools::new(self.serving.frontend.clone(), Arc::new(Terminal::default()));
        let tools = tools.in_conversation(conversation);
        let instructions = self.options.instructions(&tools.instructions().await, &selected.instructions);
        let request = ModelRequest { model: model.clone(), instructions, items, ..ModelRequest::default() };
        let mut run = RunRequest::new(provider, request);
        run.fences = self.options.fences(provider_name);
        run.cancel = cancel;
        if let Some(journal) = journal {
            run.journal = journal;
        }
        let agent = Agent::new(Arc::new(tools), self.options.limits(provider_name));
        let (sender, mut events) = mpsc::channel(MAX_WAITING_EVENTS);
        let showing = async {
            while let Some(event) = events.recv().await {
                progress.show(event)?;
            }
            progress.end()
        };
        let (outcome, shown) = tokio::join!(agent.run(run, sender), showing);
        shown.map(|()| outcome)
    }

    /// Ends sandboxes and servers, and waits for their end.
    pub(crate) async fn end(self) {
        self.serving.end().await;
    }
}

/// Shows which tools were found and selected for a task.
pub(crate) fn show_selection(selected: &SelectedTools) {
    for (title, names) in [("found", &selected.found), ("selected", &selected.names)] {
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        eprint!("{}", quoted(&format!("tools {title}: {names}\n")));
    }
}
