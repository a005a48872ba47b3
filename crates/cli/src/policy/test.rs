//! `coracle policy test`: cases from a file, decided as the broker decides.

use crate::flows::flows;
use crate::output::{columns, counted, json, plain};
use crate::policies::policy;
use crate::settings::load_for_servers;
use crate::status::{Mistake, Status};
use crate::wiring::{detector, runtime};
use anyhow::Context;
use clap::Args;
use coracle_config::{Loaded, McpServer};
use coracle_policy::{
    Approvals, Call, Cargo, Circumstances, Interface, NobodyToAsk, Reason, Refusal, Sources, ToolNames, Valuable,
};
use coracle_privacy::{Detector, Vaults, label_of_token};
use coracle_store::MemoryStore;
use coracle_types::{Decision, ExecutionId, Schema, ServerLabel, ServerName, SessionId, Tool, ToolHints, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a file with cases, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// Maximum length of a printed text in characters.
const MAX_TEXT: usize = 200;

pub(super) const AFTER_HELP: &str = "\
The file has a list of cases, in YAML or JSON:

  - name: addresses of customers do not go to the web
    call: web.fetch                     # server and tool
    arguments: { url: \"https://example.com/?q=ann@example.org\" }
    read: [crm]                         # servers that the code has read from
    expect: deny                        # allow, ask or deny
    rule: \"crm -> web: deny\"            # the rule that decides; optional

Other keys: `values` (personal data in the arguments and where it came from, as `[{ kind: EMAIL, from: [crm] }]`; without it,
the arguments are searched, and what is found may be from all servers that were read), `labels` (labels of servers for this
case, as `{ web: [exfil] }`), `user`, `session`, `calls` (earlier calls of the execution), and what the tool declares: `read_only`, `destructive`, `idempotent`,
`open_world`. The exit status is 1 if a decision differs.";

#[derive(Debug, Args)]
pub(super) struct TestArguments {
    /// File with cases, or `-` for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: Option<String>,
    call: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default)]
    read: Vec<ServerName>,
    values: Option<Vec<CaseValue>>,
    #[serde(default)]
    labels: BTreeMap<String, Vec<ServerLabel>>,
    /// The number of earlier calls of the execution.
    #[serde(default)]
    calls: u64,
    user: Option<UserId>,
    session: Option<SessionId>,
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
    expect: Decision,
    rule: Option<String>,
}

/// Personal data in the arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseValue {
    kind: String,
    #[serde(default)]
    from: Vec<ServerName>,
}

/// What came of a case.
#[derive(Debug, Serialize)]
struct Outcome {
    name: String,
    ok: bool,
    call: String,
    expected: Decision,
    decision: Decision,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    reason: String,
}

pub(super) fn run(arguments: &TestArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load_for_servers(config, Vec::new())?;
    let cases = read(&arguments.file)?;
    let detector = detector(&loaded.settings)?;
    let outcomes = runtime()?.block_on(async {
        let mut outcomes = Vec::with_capacity(cases.len());
        for (number, case) in cases.into_iter().enumerate() {
            let name = case.name.clone().unwrap_or_else(|| format!("case {}", number + 1));
            let context = format!("{}: {}", arguments.file.display(), plain(&name, MAX_TEXT));
            outcomes.push(outcome(case, name, &loaded, &detector).await.context(context)?);
        }
        anyhow::Ok(outcomes)
    })?;
    let failed = outcomes.iter().filter(|outcome| !outcome.ok).count();
    let text = if arguments.json { json(&outcomes)? } else { render(&outcomes, failed) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if failed == 0 { Status::Success } else { Status::Failed })
}

fn read(path: &Path) -> anyhow::Result<Vec<Case>> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().take(MAX_FILE + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text))
    };
    let told = |error: String| Mistake::new(format!("{}: {error}", path.display()), None::<String>);
    read.map_err(|error| told(error.to_string()))?;
    if text.len() as u64 > MAX_FILE {
        return Err(told(format!("the file is longer than {MAX_FILE} bytes")).into());
    }
    serde_saphyr::from_str(&text).map_err(|error| {
        let hint = "`coracle policy test --help` shows an example";
        Mistake::new(format!("{}: {error}", path.display()), Some(hint)).into()
    })
}

async fn outcome(case: Case, name: String, loaded: &Loaded, detector: &Detector) -> anyhow::Result<Outcome> {
    let (decision, rule, reason) = decided(&case, loaded, detector).await?;
    let is_rule = case.rule.is_none() || case.rule == rule;
    Ok(Outcome {
        name,
        ok: decision == case.expect && is_rule,
        call: case.call,
        expected: case.expect,
        decision,
        expected_rule: case.rule,
        rule,
        reason,
    })
}

/// Decides about the call of a case as the broker does, with nobody to ask.
async fn decided(
    case: &Case,
    loaded: &Loaded,
    detector: &Detector,
) -> anyhow::Result<(Decision, Option<String>, String)> {
    let store = Arc::new(MemoryStore::new());
    let labelled = labelled(case, loaded);
    let approvals = Approvals::new(policy(&labelled)?, store.clone());
    approvals.replace_flows(flows(&labelled)?);
    let tool = tool(case)?;
    let user = case.user.clone().unwrap_or_else(UserId::local);
    let (execution, names) = (ExecutionId::new("policy-test")?, ToolNames::of_wire(&tool));
    let arguments = Value::Object(case.arguments.clone());
    let sources: Sources = case.read.iter().cloned().collect();
    let valuables = if let Some(values) = &case.values {
        let valuable = |value: &CaseValue| Valuable {
            kind: value.kind.to_ascii_uppercase(),
            sources: value.from.iter().cloned().collect(),
        };
        values.iter().map(valuable).collect()
    } else {
        let vault = Vaults::new(store, detector.clone(), None).of(&user).await?;
        let tokens = vault.tokens_of(&arguments).await?;
        let valuable = |token: &String| Valuable { kind: label_of_token(token).to_owned(), sources: sources.clone() };
        tokens.iter().map(valuable).collect::<BTreeSet<_>>()
    };
    let cargo = Cargo { sources, valuables };
    let call = Call {
        user: &user,
        session: case.session.as_ref(),
        execution: &execution,
        tool: &tool,
        names: &names,
        arguments: &arguments,
        cargo: &cargo,
        circumstances: Circumstances { calls: case.calls, interface: Interface::Terminal, ..Circumstances::default() },
        doubt: None,
    };
    let refusal = match approvals.decide(call, &NobodyToAsk).await {
        Ok(grant) => {
            let coracle_policy::Grant::Policy(reason) = grant else { anyhow::bail!("nobody can have approved this") };
            return Ok((Decision::Allow, rule_of(&reason), reason.to_string()));
        }
        Err(refusal) => refusal,
    };
    let told = refusal.to_string();
    Ok(match refusal {
        Refusal::NobodyToAsk { reason, .. } => (Decision::Ask, rule_of(&reason), reason.to_string()),
        Refusal::Flow { verdict } => (Decision::Deny, Some(verdict.rule), told),
        Refusal::Denied { reason, .. } => (Decision::Deny, rule_of(&reason), reason.to_string()),
        _ => (Decision::Deny, None, told),
    })
}

fn rule_of(reason: &Reason) -> Option<String> {
    match reason {
        Reason::Rule { pattern, .. } => Some(pattern.clone()),
        Reason::Named { name, .. } => Some(name.clone()),
        Reason::Flow(verdict) => Some(verdict.rule.clone()),
        Reason::Wish | Reason::Default { .. } => None,
    }
}

/// The settings with the labels of the case.
fn labelled(case: &Case, loaded: &Loaded) -> Loaded {
    let mut loaded = loaded.clone();
    for (server, labels) in &case.labels {
        let entry: &mut McpServer = loaded.settings.mcp_servers.entry(server.clone()).or_default();
        entry.labels = Some(labels.clone());
    }
    loaded
}

fn tool(case: &Case) -> anyhow::Result<Tool> {
    let wrong =
        || Mistake::new(format!("`call` is {:?}: write SERVER.TOOL", plain(&case.call, MAX_TEXT)), None::<String>);
    let (server, name) = case.call.split_once('.').filter(|(_, name)| !name.is_empty()).ok_or_else(wrong)?;
    Ok(Tool {
        server: ServerName::new(server)?,
        name: name.to_owned(),
        title: None,
        description: String::new(),
        input_schema: Schema::default(),
        output_schema: None,
        category: None,
        hints: ToolHints {
            read_only: case.read_only,
            destructive: case.destructive,
            idempotent: case.idempotent,
            open_world: case.open_world,
        },
    })
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

fn render(outcomes: &[Outcome], failed: usize) -> String {
    let mut text = columns(outcomes.iter().map(|outcome| {
        let rule = outcome.rule.as_deref().unwrap_or_default();
        [
            if outcome.ok { "✓" } else { "✗" }.to_owned(),
            plain(&outcome.name, MAX_TEXT),
            plain(&outcome.call, MAX_TEXT),
            word(outcome.decision).to_owned(),
            plain(rule, MAX_TEXT),
        ]
    }));
    for outcome in outcomes.iter().filter(|outcome| !outcome.ok) {
        let expected = match &outcome.expected_rule {
            Some(rule) => format!("{} by {rule:?}", word(outcome.expected)),
            None => word(outcome.expected).to_owned(),
        };
        let told = format!("expected {expected}, got {}: {}", word(outcome.decision), outcome.reason);
        let _ = write!(text, "\n{}:\n  {}\n", plain(&outcome.name, MAX_TEXT), plain(&told, 5 * MAX_TEXT));
    }
    let _ = write!(text, "\n{}, {failed} failed\n", counted(outcomes.len(), "case"));
    text
}
