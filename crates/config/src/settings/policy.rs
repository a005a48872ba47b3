use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Condition on calls or on executions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyRule {
    /// Name of the rule, which errors and the audit log mention.
    pub name: String,
    /// Subject of the rule: `call` (the default) or `execution`.
    #[schemars(with = "Option<OnText>")]
    pub on: Option<String>,
    /// Pattern of the tools that the rule applies to, as in `policy.tools`. All tools if it is not set.
    pub tools: Option<String>,
    /// CEL expression: the rule applies only if it is true, or cannot be evaluated.
    pub when: Option<String>,
    /// CEL expression that must be true, such as `args.amount <= 1000`.
    pub require: String,
    /// Decision if `require` is not true or cannot be evaluated: `deny` (the default) or `ask`.
    #[schemars(with = "Option<OtherwiseText>")]
    pub otherwise: Option<String>,
    /// Explanation for the people and programs whose calls are refused.
    pub message: Option<String>,
}

/// Subject of a condition.
#[derive(JsonSchema)]
#[schemars(rename = "On", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum OnText {
    /// Tool calls.
    Call,
    /// Executions of code.
    Execution,
}

/// Decision about calls that do not meet a condition.
#[derive(JsonSchema)]
#[schemars(rename = "Otherwise", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum OtherwiseText {
    /// Refuse the call.
    Deny,
    /// Ask a person before making the call.
    Ask,
}

/// Limit on calls in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyLimit {
    /// Name of the limit. What was used is counted under this name, and is kept when the limit changes.
    pub name: String,
    /// Pattern of the tools whose calls count, as in `policy.tools`. All tools if it is not set.
    pub tools: Option<String>,
    /// Things that are counted separately: `user`, `server`, `tool`, or several of them. All calls count together if it is empty.
    #[schemars(with = "Vec<PerText>")]
    pub per: Vec<String>,
    /// Period in which calls count, such as `30s`, `1h` or `7days`.
    pub window: String,
    /// Maximum number of calls in the period.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub calls: Option<u64>,
    /// CEL expression for the amount of a call, such as `args.amount`. A call whose amount is not a number of at least 0
    /// is refused.
    pub amount: Option<String>,
    /// Maximum sum of the amounts in the period.
    #[schemars(range(min = 1, max = 10_000_000_000_u64))]
    pub max: Option<u64>,
}

/// Things that are counted separately.
#[derive(JsonSchema)]
#[schemars(rename = "Per", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum PerText {
    /// Each user.
    User,
    /// Each server.
    Server,
    /// Each tool.
    Tool,
}
