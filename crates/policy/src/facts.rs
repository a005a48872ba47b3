use crate::ToolNames;
use coracle_types::{Language, ServerLabel, SessionId, Tool, UserId};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the code comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interface {
    /// A program that embeds the engine.
    #[default]
    Engine,
    /// A command at a terminal.
    Terminal,
    /// An MCP client.
    Mcp,
    /// A client of `/api`, or the page.
    Api,
    /// A model that the agent of this server runs.
    Agent,
}

impl Interface {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Terminal => "terminal",
            Self::Mcp => "mcp",
            Self::Api => "api",
            Self::Agent => "agent",
        }
    }
}

/// What is known about a call besides the tool and its arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances<'a> {
    /// The number of earlier calls of the execution.
    pub calls: u64,
    /// Whether arguments use results of calls that are only planned. What depends on them is decided when the call is made.
    pub are_arguments_open: bool,
    /// The conversation, run or connection that the code belongs to, if any.
    pub conversation: Option<&'a str>,
    /// Where the code comes from.
    pub interface: Interface,
}

/// What a decision about a call is made from.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The user who runs the code.
    pub user: &'a UserId,
    /// The session of the code, if any.
    pub session: Option<&'a SessionId>,
    /// The tool.
    pub tool: &'a Tool,
    /// The names of the tool.
    pub names: &'a ToolNames,
    /// The arguments of the call.
    pub arguments: &'a Value,
    /// The labels of the server in view of the tool.
    pub labels: BTreeSet<ServerLabel>,
    /// What else is known about the call.
    pub circumstances: Circumstances<'a>,
    /// The time of the call.
    pub at: SystemTime,
}

/// What a decision about an execution is made from.
#[derive(Clone, Copy, Debug)]
pub struct ExecutionFacts<'a> {
    /// The user whose code it is.
    pub user: &'a UserId,
    /// The session that it runs in, if any.
    pub session: Option<&'a SessionId>,
    /// The programming language.
    pub language: Language,
    /// The length of the code in bytes.
    pub bytes: usize,
    /// The conversation, run or connection that it belongs to, if any.
    pub conversation: Option<&'a str>,
    /// Where the code comes from.
    pub interface: Interface,
    /// The time.
    pub at: SystemTime,
}

/// What a decision is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About<'a> {
    Call(&'a Facts<'a>),
    Execution(&'a ExecutionFacts<'a>),
}

impl<'a> About<'a> {
    pub(crate) fn user(self) -> &'a UserId {
        match self {
            Self::Call(facts) => facts.user,
            Self::Execution(facts) => facts.user,
        }
    }

    pub(crate) fn session(self) -> Option<&'a SessionId> {
        match self {
            Self::Call(facts) => facts.session,
            Self::Execution(facts) => facts.session,
        }
    }

    pub(crate) fn conversation(self) -> Option<&'a str> {
        match self {
            Self::Call(facts) => facts.circumstances.conversation,
            Self::Execution(facts) => facts.conversation,
        }
    }

    pub(crate) fn at(self) -> SystemTime {
        match self {
            Self::Call(facts) => facts.at,
            Self::Execution(facts) => facts.at,
        }
    }

    pub(crate) fn interface(self) -> Interface {
        match self {
            Self::Call(facts) => facts.circumstances.interface,
            Self::Execution(facts) => facts.interface,
        }
    }
}

/// A moment in UTC, in the parts that policies compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Seconds since 1970.
    pub(crate) epoch: i64,
    /// Hour of the day, from 0 to 23.
    pub(crate) hour: i64,
    /// Minute of the hour, from 0 to 59.
    pub(crate) minute: i64,
    /// English name of the day of the week, in lower case.
    pub(crate) weekday: &'static str,
}

impl Moment {
    /// A Thursday was the first day of 1970.
    const WEEKDAYS: [&'static str; 7] = ["thursday", "friday", "saturday", "sunday", "monday", "tuesday", "wednesday"];

    pub(crate) fn of(time: SystemTime) -> Self {
        let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        Self {
            epoch: i64::try_from(seconds).unwrap_or(i64::MAX),
            hour: (second / 3_600).cast_signed(),
            minute: (second / 60 % 60).cast_signed(),
            weekday: Self::WEEKDAYS[(days % 7) as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn moments_are_in_utc() {
        let at = |seconds| Moment::of(UNIX_EPOCH + Duration::from_secs(seconds));
        // 2026-11-19 01:07:30, a Thursday.
        assert_eq!(at(1_795_050_450), Moment { epoch: 1_795_050_450, hour: 1, minute: 7, weekday: "thursday" });
        assert_eq!(at(0), Moment { epoch: 0, hour: 0, minute: 0, weekday: "thursday" });
        // 2024-02-29 23:59:59, a Thursday, and the second after it.
        assert_eq!((at(1_709_251_199).hour, at(1_709_251_200).weekday), (23, "friday"));
    }
}
