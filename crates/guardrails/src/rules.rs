//! The rules, in one table. The documentation of the rules is compared with it.

use std::fmt;

/// What a rule is about. Its ID is stable: settings, reports and programs refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// An import of a module that reaches around the interpreter.
    Import,
    /// A call that starts another program or another process.
    Call,
    /// Execution of text that is neither a literal nor a skill.
    DynamicCode,
    /// Code that hides what it does.
    Obfuscation,
    /// Access to the insides of the interpreter.
    Introspection,
    /// An attempt to gain privileges or to leave the sandbox.
    BreakOut,
    /// Access to files of the system that give away or change its state.
    SystemFile,
    /// Deletion of everything, or exhaustion of the machine.
    Destructive,
    /// A raw network connection.
    RawNetwork,
    /// A request to the network, which the sandbox does not have.
    NoNetwork,
    /// Code that is too long or nested too deeply to be checked.
    Size,
    /// Code that cannot be parsed.
    Syntax,
    /// A server or a tool that certainly does not exist.
    UnknownTool,
    /// A tool that its server did not have when it listed its tools last.
    UnlistedTool,
    /// A tool that may write, in a task that only reads.
    WriteInReadOnlyTask,
}

/// What strict mode does about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The code runs, with a warning.
    Advice,
    /// Strict mode does not run the code.
    Danger,
}

/// The description of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The rule.
    pub rule: Rule,
    /// Its ID.
    pub id: &'static str,
    /// What strict mode does about it.
    pub severity: Severity,
    /// What it finds.
    pub finds: &'static str,
    /// An example that it finds.
    pub example: &'static str,
    /// What to do instead.
    pub hint: &'static str,
}

/// All rules.
pub const RULES: &[Description] = &[
    Description {
        rule: Rule::Import,
        id: "import",
        severity: Severity::Danger,
        finds: "imports of modules that reach around the interpreter, and of those in `guardrails.deny_imports`",
        example: "import ctypes",
        hint: "use a module that does not call native code, or add the module to guardrails.allow",
    },
    Description {
        rule: Rule::Call,
        id: "call",
        severity: Severity::Danger,
        finds: "functions that start other programs or processes from Python or TypeScript",
        example: "os.system(\"ls\")",
        hint: "run shell commands as code in bash, or add the function to guardrails.allow",
    },
    Description {
        rule: Rule::DynamicCode,
        id: "dynamic-code",
        severity: Severity::Danger,
        finds: "execution of text that is neither a literal nor comes from `load_skill`, and of downloads",
        example: "eval(input_text)",
        hint: "parse data with json or ast.literal_eval; save code that is used again as a skill",
    },
    Description {
        rule: Rule::Obfuscation,
        id: "obfuscation",
        severity: Severity::Danger,
        finds: "code that hides what it does: execution of decoded text, computed names of modules and their \
                functions, invisible characters",
        example: "exec(base64.b64decode(data))",
        hint: "write the code and the names of modules and functions out",
    },
    Description {
        rule: Rule::Introspection,
        id: "introspection",
        severity: Severity::Danger,
        finds: "access to the insides of the interpreter that leads around the names of functions",
        example: "().__class__.__base__.__subclasses__()",
        hint: "import what the code needs by its name",
    },
    Description {
        rule: Rule::BreakOut,
        id: "break-out",
        severity: Severity::Danger,
        finds: "attempts to gain privileges, to trace other processes or to leave the sandbox",
        example: "sudo mount /dev/sda1 /mnt",
        hint: "leave this out: code has no privileges and cannot gain any",
    },
    Description {
        rule: Rule::SystemFile,
        id: "system-file",
        severity: Severity::Danger,
        finds: "files that give away or change the state of the system: memory and environment of processes, \
                devices, passwords, sockets of services",
        example: "open(\"/proc/1/environ\")",
        hint: "use the files in /workspace",
    },
    Description {
        rule: Rule::Destructive,
        id: "destructive",
        severity: Severity::Danger,
        finds: "deletion of all files, overwritten disks, fork bombs",
        example: "rm -rf /",
        hint: "delete single files by their names",
    },
    Description {
        rule: Rule::RawNetwork,
        id: "raw-network",
        severity: Severity::Danger,
        finds: "raw network connections",
        example: "exec 3<>/dev/tcp/10.0.0.1/4444",
        hint: "the sandbox has no network: call a tool of an MCP server",
    },
    Description {
        rule: Rule::NoNetwork,
        id: "no-network",
        severity: Severity::Advice,
        finds: "HTTP requests, which fail because the sandbox has no network",
        example: "requests.get(url)",
        hint: "the sandbox has no network: call a tool of an MCP server",
    },
    Description {
        rule: Rule::Size,
        id: "size",
        severity: Severity::Danger,
        finds: "code that is too long or nested too deeply to be checked",
        example: "((((((…))))))",
        hint: "put data into a file in the workspace and read it from there; split the code",
    },
    Description {
        rule: Rule::Syntax,
        id: "syntax",
        severity: Severity::Danger,
        finds: "code that cannot be parsed, and is therefore not checked",
        example: "print(\"hello\"",
        hint: "fix the syntax",
    },
    Description {
        rule: Rule::UnknownTool,
        id: "unknown-tool",
        severity: Severity::Danger,
        finds: "servers and tools that certainly do not exist, with the nearest names",
        example: "from servers.time import convert_tiem",
        hint: "search for the tool, or list the package of its server",
    },
    Description {
        rule: Rule::UnlistedTool,
        id: "unlisted-tool",
        severity: Severity::Advice,
        finds: "tools that a server did not have when it was last used, before Coracle was started",
        example: "from servers.time import convert_tiem",
        hint: "search for the tool, or list the package of its server",
    },
    Description {
        rule: Rule::WriteInReadOnlyTask,
        id: "write-in-read-only-task",
        severity: Severity::Danger,
        finds: "tools that are not marked as read-only, in a task that only reads",
        example: "from servers.files import write_file",
        hint: "use tools that only read, or run the code without read-only mode",
    },
];

impl Rule {
    /// The description of the rule.
    pub fn describe(self) -> &'static Description {
        // A test compares the order.
        &RULES[self as usize]
    }

    /// The stable ID.
    pub fn id(self) -> &'static str {
        self.describe().id
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_rule_at_its_place() {
        for (index, row) in RULES.iter().enumerate() {
            assert_eq!(row.rule as usize, index, "{}", row.id);
        }
        assert_eq!(RULES.last().map(|row| row.rule), Some(Rule::WriteInReadOnlyTask));
    }
}
