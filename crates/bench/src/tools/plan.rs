//! Rows of the benchmark, and the results of one run.

use super::baseline::TOOL;
use Pace::{Hasty, Rested};
use coracle_types::PrivacyMode::{self, Model, Off, Strict};
use serde::{Deserialize, Serialize};

/// Concurrency of the rows with parallel calls.
pub(super) const AT_ONCE: usize = 32;

/// Duration of the tool `nap`.
pub(super) const NAP_SECONDS: f64 = 0.020;

/// Maximum number of naps per round, because they are slow.
const MOST_NAPS: usize = 256;

/// Maximum number of calls and executions with a page of 100 KB per round.
const MOST_PAGES: usize = 40;

/// Maximum number of executions by a client per round.
const MOST_RUNS: usize = 400;

/// Starting a server is even slower: the number of starts is the number of calls divided by `STARTS_PART`, and at most
/// `MOST_STARTS`.
const STARTS_PART: usize = 5;
const MOST_STARTS: usize = 20;

/// Number of servers in the settings of the row `mcp_first_50`.
pub(super) const MANY_SERVERS: usize = 50;

/// Session of the rows that have one.
const SESSION: &str = "bench";

/// Pause between two executions by a client. A model takes longer to write the next one.
const REST_SECONDS: f64 = 0.010;

/// Number of calls that do not count.
const WARM_UP: usize = 50;

/// Text that is sent and returned.
const TEXT: &str = "The quick brown fox jumps over the lazy dog";

/// Caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Python in a sandbox.
    Python,
    /// TypeScript in a sandbox.
    TypeScript,
    /// The policy alone, without a call, with these policies.
    Policy(Kind),
    /// The client of the Python SDK, in a separate process.
    Direct,
    /// The same client, which asks Coracle to run `pass`.
    Client(Pace),
    /// The same in a session.
    Session(Pace),
    /// The same, as the first call to a server that the client has just started, with this number of servers in its
    /// settings.
    First(usize),
    /// The same client, calling a no-op tool of the bare protocol library.
    Baseline(Pace),
    /// Python in a sandbox, whose calls return 100 KB each, in a privacy mode.
    Reads(PrivacyMode, Pages),
    /// Executions of Python that print 100 KB each for a model, in a privacy mode.
    Prints(PrivacyMode, Pages),
}

/// The policies of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Cedar policies.
    Cedar,
    /// Conditions in CEL.
    Conditions,
}

/// What pages consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// Lines of JSON, each with a name, an e-mail address and a phone number.
    Customers,
    /// Lines of a log, without personal data.
    Log,
}

impl Pages {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Customers => "customers",
            Self::Log => "log",
        }
    }
}

/// Pause before the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Rested,
    /// No pause.
    Hasty,
}

/// Callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The host, without the broker: the cost of an empty call.
    Host,
    /// A tool in the host's process, through the broker.
    Process,
    /// A separate server over stdio.
    Stdio,
    /// The same server with a slow tool.
    Nap,
    /// A server over HTTP.
    Http,
}

/// Row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) by: By,
    pub(super) from: From,
    pub(super) at_once: usize,
    pub(super) how: &'static str,
}

const fn plan(name: &'static str, by: By, from: From, at_once: usize, how: &'static str) -> Plan {
    Plan { name, by, from, at_once, how }
}

pub(super) const HOST: &str = "host";
pub(super) const IN_PROCESS: &str = "in_process";
pub(super) const DIRECT: &str = "direct";
pub(super) const DIRECT_32: &str = "direct_32";
pub(super) const NAP: &str = "nap";
pub(super) const NAP_32: &str = "nap_32";
pub(super) const MCP_STDIO: &str = "mcp_stdio";
pub(super) const MCP_HTTP: &str = "mcp_http";
pub(super) const PLAIN_STDIO: &str = "plain_stdio";
pub(super) const PLAIN_HTTP: &str = "plain_http";
pub(super) const MCP_STDIO_HASTY: &str = "mcp_stdio_hasty";
pub(super) const MCP_HTTP_HASTY: &str = "mcp_http_hasty";
pub(super) const PLAIN_STDIO_HASTY: &str = "plain_stdio_hasty";
pub(super) const PLAIN_HTTP_HASTY: &str = "plain_http_hasty";
pub(super) const SESSION_HTTP: &str = "session_http";
pub(super) const SESSION_HTTP_HASTY: &str = "session_http_hasty";
pub(super) const MCP_FIRST: &str = "mcp_first";
pub(super) const MCP_FIRST_50: &str = "mcp_first_50";

/// Rows of privacy modes, and the rows without them that they are compared with.
pub(super) const PRIVATE: [(&str, &str); 4] = [
    ("strict_customers", "off_customers"),
    ("strict_log", "off_log"),
    ("print_model_customers", "print_customers"),
    ("print_model_log", "print_log"),
];

/// Rows in the order of the table.
pub(super) const ROWS: [Plan; 35] = [
    plan(HOST, By::Python, From::Host, 1, "answered by the host without the broker: the way there and back"),
    plan(IN_PROCESS, By::Python, From::Process, 1, "a no-op tool in the host's process: the way and the broker"),
    plan("in_process_32", By::Python, From::Process, AT_ONCE, "the same, with asyncio"),
    plan("in_process_typescript", By::TypeScript, From::Process, 1, "the same, from TypeScript"),
    plan("decision_200", By::Policy(Kind::Conditions), From::Process, 1, "a decision of 200 conditions in CEL alone"),
    plan("decision_cedar_200", By::Policy(Kind::Cedar), From::Process, 1, "a decision of 200 Cedar policies alone"),
    plan("stdio", By::Python, From::Stdio, 1, "a stdio server, from Python in a sandbox"),
    plan("stdio_typescript", By::TypeScript, From::Stdio, 1, "the same, from TypeScript in a sandbox"),
    plan(DIRECT, By::Direct, From::Stdio, 1, "the same by the Python client, without Coracle"),
    plan("stdio_32", By::Python, From::Stdio, AT_ONCE, "a stdio server, from Python in a sandbox"),
    plan("stdio_typescript_32", By::TypeScript, From::Stdio, AT_ONCE, "the same, from TypeScript in a sandbox"),
    plan(DIRECT_32, By::Direct, From::Stdio, AT_ONCE, "the same by the Python client, without Coracle"),
    plan(NAP, By::Python, From::Nap, 1, "a stdio server that takes 20 ms, from Python in a sandbox"),
    plan(NAP_32, By::Python, From::Nap, AT_ONCE, "the same, with asyncio"),
    plan("nap_typescript_32", By::TypeScript, From::Nap, AT_ONCE, "the same, from TypeScript"),
    plan(MCP_STDIO, By::Client(Rested), From::Stdio, 1, "execute_code of `pass` by the Python client, over stdio"),
    plan(
        PLAIN_STDIO,
        By::Baseline(Rested),
        From::Stdio,
        1,
        "a tool that does nothing, of a server of the bare library",
    ),
    plan(MCP_HTTP, By::Client(Rested), From::Http, 1, "execute_code of `pass` by the Python client, over HTTP"),
    plan(PLAIN_HTTP, By::Baseline(Rested), From::Http, 1, "a tool that does nothing, of a server of the bare library"),
    plan(MCP_STDIO_HASTY, By::Client(Hasty), From::Stdio, 1, "as mcp_stdio, without a rest between the calls"),
    plan(PLAIN_STDIO_HASTY, By::Baseline(Hasty), From::Stdio, 1, "as plain_stdio, without a rest"),
    plan(MCP_HTTP_HASTY, By::Client(Hasty), From::Http, 1, "as mcp_http, without a rest"),
    plan(PLAIN_HTTP_HASTY, By::Baseline(Hasty), From::Http, 1, "as plain_http, without a rest"),
    plan(SESSION_HTTP, By::Session(Rested), From::Http, 1, "as mcp_http, in a session that lives on"),
    plan(SESSION_HTTP_HASTY, By::Session(Hasty), From::Http, 1, "as mcp_http_hasty, in a session that lives on"),
    plan(MCP_FIRST, By::First(0), From::Stdio, 1, "as mcp_stdio, the first call after the client has started it"),
    plan(MCP_FIRST_50, By::First(MANY_SERVERS), From::Stdio, 1, "the same, with 50 servers in its settings"),
    plan(
        "off_customers",
        By::Reads(Off, Pages::Customers),
        From::Stdio,
        1,
        "a call that returns 100 KB with personal data",
    ),
    plan("strict_customers", By::Reads(Strict, Pages::Customers), From::Stdio, 1, "the same, in privacy mode strict"),
    plan("off_log", By::Reads(Off, Pages::Log), From::Stdio, 1, "a call that returns 100 KB without personal data"),
    plan("strict_log", By::Reads(Strict, Pages::Log), From::Stdio, 1, "the same, in privacy mode strict"),
    plan(
        "print_customers",
        By::Prints(Off, Pages::Customers),
        From::Host,
        1,
        "an execution that prints 100 KB with personal data",
    ),
    plan(
        "print_model_customers",
        By::Prints(Model, Pages::Customers),
        From::Host,
        1,
        "the same, in privacy mode model",
    ),
    plan(
        "print_log",
        By::Prints(Off, Pages::Log),
        From::Host,
        1,
        "an execution that prints 100 KB without personal data",
    ),
    plan("print_model_log", By::Prints(Model, Pages::Log), From::Host, 1, "the same, in privacy mode model"),
];

/// Instructions for the program that makes the calls.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Orders {
    tool: &'static str,
    /// Name and value of the only argument.
    argument: &'static str,
    text: &'static str,
    /// Whether the text is returned.
    echoes: bool,
    session: Option<&'static str>,
    /// Whether each call goes to a newly started server.
    first: bool,
    at_once: usize,
    /// Pause before each call in seconds.
    rest: f64,
    warm_up: usize,
    pub(super) calls: usize,
}

impl Plan {
    pub(super) fn orders(&self, calls: usize) -> Orders {
        let (tool, calls) = match (self.by, self.from) {
            (By::Client(_) | By::Session(_), _) => ("execute_code", calls.min(MOST_RUNS)),
            (By::First(_), _) => ("execute_code", (calls / STARTS_PART).clamp(1, MOST_STARTS)),
            (By::Baseline(_), _) => (TOOL, calls.min(MOST_RUNS)),
            (By::Reads(..) | By::Prints(..), _) => ("page", calls.min(MOST_PAGES)),
            (_, From::Host) => ("straight", calls),
            (_, From::Process | From::Stdio | From::Http) => ("echo", calls),
            (_, From::Nap) => ("nap", calls.min(MOST_NAPS)),
        };
        let is_run = matches!(self.by, By::Client(_) | By::Session(_) | By::First(_));
        let is_bare = matches!(self.by, By::Baseline(_));
        let is_rested = matches!(self.by, By::Client(Rested) | By::Session(Rested) | By::Baseline(Rested));
        let rest = if is_rested { REST_SECONDS } else { 0.0 };
        let (first, session) = (matches!(self.by, By::First(_)), matches!(self.by, By::Session(_)).then_some(SESSION));
        let warm_up = match self.by {
            By::First(_) | By::Reads(..) | By::Prints(..) => 1,
            _ => WARM_UP.min(calls),
        };
        let (argument, text) = match self.by {
            By::Reads(_, pages) | By::Prints(_, pages) => ("kind", pages.name()),
            _ if is_run => ("code", "pass"),
            _ => ("text", TEXT),
        };
        let echoes = !is_run && !is_bare;
        Orders { tool, argument, text, echoes, session, first, at_once: self.at_once, rest, warm_up, calls }
    }
}

/// Results in microseconds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Times {
    /// Duration of each call; empty if single calls cannot be measured.
    pub(super) each: Vec<f64>,
    /// Total duration.
    pub(super) total: f64,
}
