//! Commands.

use super::words::{DECODED, FETCHED, Words, base, is_whole};
use super::{Bash, Input, children, facts, is_argument};
use crate::facts::paths;
use crate::report::shown;
use crate::rules::Rule;
use crate::uses::ToolUse;
use coracle_types::Language;
use tree_sitter::Node;

impl Bash<'_> {
    pub(super) fn command(&mut self, node: Node<'_>, input: &Input, depth: usize) {
        let at = node.start_byte();
        if self.is_too_much(at, depth) {
            return;
        }
        let mut input = input.clone();
        for child in children(node) {
            if child.kind() == "herestring_redirect" {
                let word = children(child).into_iter().find(Node::is_named).map(|word| self.words(word, 0));
                input = Input::Text(word.unwrap_or_default().any());
            }
        }
        if let Some(name) = node.child_by_field_name("name") {
            let spelled = self.text(name).to_owned();
            let arguments = self.arguments(node);
            let array = spelled
                .trim_matches('"')
                .strip_prefix("${")
                .and_then(|text| text.strip_suffix("[@]}"))
                .and_then(|name| self.arrays.get(name));
            match array {
                Some(words) => {
                    let words: Vec<Words> = words.iter().cloned().chain(arguments).collect();
                    self.run(at, &words, &input, 0);
                }
                None if is_argument(&spelled) && self.is_in_function => {}
                None => {
                    let words: Vec<Words> = [self.words(name, 0)].into_iter().chain(arguments).collect();
                    self.run(at, &words, &input, 0);
                }
            }
        }
        // Substitutions, assignments and redirections within the command.
        self.inside(node, depth);
    }

    /// Looks at a command with its arguments, for each name that it may have.
    fn run(&mut self, at: usize, words: &[Words], input: &Input, wrapped: usize) {
        let Some((name, arguments)) = words.split_first() else { return };
        let names: Vec<String> = name.texts().map(str::to_owned).collect();
        for name in names {
            if wrapped < 8 {
                self.named(at, &name, arguments, input, wrapped);
            }
        }
    }

    fn named(&mut self, at: usize, name: &str, arguments: &[Words], input: &Input, wrapped: usize) {
        if !is_whole(name) {
            let (rule, message) = if name.contains(DECODED) {
                (Rule::Obfuscation, "runs a command whose name is decoded".to_owned())
            } else {
                (Rule::DynamicCode, "runs a command whose name is computed".to_owned())
            };
            return self.report(at, rule, message, None);
        }
        // A variable without quotes can contain a whole command.
        if name.contains(' ') {
            let words: Vec<Words> = name.split_whitespace().map(single).chain(arguments.iter().cloned()).collect();
            return self.run(at, &words, input, wrapped + 1);
        }
        let name = base(name);
        if self.wrappers.contains(name) {
            self.run(at, arguments, input, wrapped + 1);
        }
        self.files(at, name, arguments);
        self.dangers(at, name, arguments);
        self.dynamic(at, name, arguments, input);
        if name == "tool" {
            self.tool(at, arguments);
        }
        if let Some((_, options)) = facts::WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) {
            let rest = self.unwrapped(at, name, arguments, options);
            self.run(at, rest, input, wrapped + 1);
        }
        if name == "find" {
            let mut rest = arguments.iter().enumerate();
            while let Some((index, _)) = rest.find(|(_, word)| {
                word.whole().is_some_and(|word| matches!(word, "-exec" | "-execdir" | "-ok" | "-okdir"))
            }) {
                let end = arguments[index..].iter().position(|word| matches!(word.whole(), Some(";" | "+")));
                let end = end.map_or(arguments.len(), |length| index + length);
                self.run(at, &arguments[index + 1..end.max(index + 1)], input, wrapped + 1);
            }
        }
    }

    /// The command that a wrapper runs.
    fn unwrapped<'w>(&mut self, at: usize, name: &str, arguments: &'w [Words], options: &[&str]) -> &'w [Words] {
        let mut rest = arguments;
        let mut is_first = true;
        while let Some((word, after)) = rest.split_first() {
            let text = word.whole().unwrap_or_default();
            if name == "command" && matches!(text, "-v" | "-V") {
                return &[];
            }
            if options.contains(&text) {
                rest = after.get(1..).unwrap_or_default();
            } else if text.starts_with('-') && text.len() > 1 {
                rest = after;
            } else if let (Some((variable, _)), "env" | "sudo") = (text.split_once('='), name) {
                let variable = variable.to_owned();
                self.variable(at, &variable);
                rest = after;
            } else if name == "timeout" && is_first {
                is_first = false;
                rest = after;
            } else {
                break;
            }
        }
        rest
    }

    /// Reports files that code has no business with.
    fn files(&mut self, at: usize, name: &str, arguments: &[Words]) {
        if facts::PRINTERS.contains(&name) {
            return;
        }
        for argument in arguments {
            for text in argument.texts() {
                let path = text.split_once('=').map_or(text, |(_, path)| path).trim_start_matches('@');
                self.file(at, path);
                if path != text {
                    self.file(at, text);
                }
            }
        }
    }

    fn dangers(&mut self, at: usize, name: &str, arguments: &[Words]) {
        let has = |what: &[&str]| arguments.iter().any(|argument| argument.texts().any(|text| what.contains(&text)));
        let flags = |letters: &[char]| {
            arguments.iter().any(|argument| {
                argument.texts().any(|text| text.starts_with('-') && !text.starts_with("--") && text.contains(letters))
            })
        };
        let is_everything = arguments.iter().any(|argument| argument.texts().any(paths::is_everything));
        let first = arguments.first().and_then(Words::whole).unwrap_or_default();
        let finding = match name {
            _ if facts::PRIVILEGED.contains(&name) => (Rule::BreakOut, "needs or changes privileges"),
            "mount" if !arguments.is_empty() => (Rule::BreakOut, "needs or changes privileges"),
            "docker" | "podman" if matches!(first, "run" | "exec" | "cp") => {
                (Rule::BreakOut, "reaches other containers")
            }
            "sysctl" if flags(&['w']) => (Rule::BreakOut, "changes the kernel"),
            "chmod" if has(&["+s", "u+s", "g+s", "ug+s"]) || is_set_id(first) => {
                (Rule::BreakOut, "makes a program run with other privileges")
            }
            "chmod" | "chown" | "chgrp" if flags(&['R']) && is_everything => {
                (Rule::Destructive, "changes all files of the system")
            }
            "rm" if has(&["--no-preserve-root"])
                || (is_everything && (flags(&['r', 'R']) || has(&["--recursive"]))) =>
            {
                (Rule::Destructive, "deletes everything")
            }
            "find" if is_everything && (has(&["-delete"]) || has(&["-exec"]) && has(&["rm", "shred", "unlink"])) => {
                (Rule::Destructive, "deletes everything")
            }
            "mv" if arguments.split_last().is_some_and(|(last, others)| {
                last.whole() == Some("/dev/null") && others.iter().any(|one| one.texts().any(paths::is_everything))
            }) =>
            {
                (Rule::Destructive, "deletes everything")
            }
            _ if name == "mkfs" || name.starts_with("mkfs.") || facts::DESTRUCTIVE.contains(&name) => {
                (Rule::Destructive, "destroys disks or stops the machine")
            }
            "kill" if arguments.len() > 1 && arguments.last().and_then(Words::whole) == Some("-1") => {
                (Rule::Destructive, "ends all processes")
            }
            _ if facts::NETWORK.contains(&name) => (Rule::RawNetwork, "opens network connections"),
            "openssl" if first == "s_client" || first == "s_server" => (Rule::RawNetwork, "opens network connections"),
            _ if facts::FETCHERS.contains(&name) => (Rule::NoNetwork, "sends requests to the network"),
            _ => return,
        };
        self.report(at, finding.0, format!("{} {}", shown(name), finding.1), Some(name));
    }

    /// Code that is run from text.
    fn dynamic(&mut self, at: usize, name: &str, arguments: &[Words], input: &Input) {
        match name {
            "eval" => {
                let text: Vec<String> = arguments.iter().map(Words::any).collect();
                self.code(at, name, Language::Bash, &text.join(" "));
            }
            "trap" => {
                if let Some(handler) = arguments.first().filter(|_| arguments.len() > 1)
                    && !matches!(handler.whole(), Some("-" | "" | "-p" | "-l"))
                {
                    self.code(at, name, Language::Bash, &handler.any());
                }
            }
            "source" | "." => {
                let file = arguments.first().map(Words::any).unwrap_or_default();
                if !is_whole(&file) || matches!(file.as_str(), "/dev/stdin" | "/dev/fd/0" | "-") {
                    self.computed(at, name, &file);
                }
            }
            "declare" | "export" | "alias" => {}
            _ if facts::SHELLS.contains(&name) => self.interpreter(at, name, "-c", arguments, input),
            _ => {
                let version = name.trim_end_matches(|one: char| one.is_ascii_digit() || one == '.');
                let found =
                    facts::INTERPRETERS.iter().find(|(one, _)| *one == name || *one == version && version != name);
                if let Some((_, option)) = found {
                    self.interpreter(at, name, option, arguments, input);
                }
            }
        }
    }

    fn interpreter(&mut self, at: usize, name: &str, option: &str, arguments: &[Words], input: &Input) {
        let language = if facts::SHELLS.contains(&name) {
            Some(Language::Bash)
        } else if name.starts_with("python") {
            Some(Language::Python)
        } else if name == "node" || name == "qjs" {
            Some(Language::TypeScript)
        } else {
            None
        };
        let is_code = |text: &str| {
            text == option
                || text.starts_with('-') && !text.starts_with("--") && text.len() > 2 && text.ends_with(&option[1..])
        };
        for (index, argument) in arguments.iter().enumerate() {
            let text = argument.any();
            if is_code(&text) {
                match arguments.get(index + 1).map(Words::any) {
                    Some(code) => self.interpreted(at, name, language, &code),
                    None => self.computed(at, name, ""),
                }
                return;
            }
            if text == "-s" || text == "-" || text == "/dev/stdin" {
                return self.piped(at, name, language, input);
            }
            if !text.starts_with('-') {
                // A file. Unknown names of files are fine, downloads are not.
                if text.contains([FETCHED, DECODED]) {
                    self.computed(at, name, &text);
                }
                return;
            }
            if matches!(text.as_str(), "-m" | "--version" | "-V" | "--help" | "-h") {
                return;
            }
        }
        self.piped(at, name, language, input);
    }

    fn interpreted(&mut self, at: usize, name: &str, language: Option<Language>, code: &str) {
        match language {
            Some(language) => self.code(at, name, language, code),
            None if is_whole(code) => {}
            None => self.computed(at, name, code),
        }
    }

    fn piped(&mut self, at: usize, name: &str, language: Option<Language>, input: &Input) {
        match input {
            Input::Inherited => {}
            Input::Text(text) => self.interpreted(at, name, language, text),
            Input::Commands { is_fetched, is_decoded } => {
                let mark = match (is_fetched, is_decoded) {
                    (true, _) => FETCHED.to_string(),
                    (false, true) => DECODED.to_string(),
                    (false, false) => super::words::GAP.to_string(),
                };
                self.computed(at, name, &mark);
            }
        }
    }

    /// Code that is run: known code is checked, other code is reported.
    fn code(&mut self, at: usize, name: &str, language: Language, code: &str) {
        if is_whole(code) {
            self.nested(at, language, code);
        } else {
            self.computed(at, name, code);
        }
    }

    fn computed(&mut self, at: usize, name: &str, text: &str) {
        let name = shown(name);
        let (rule, message) = if text.contains(FETCHED) {
            (Rule::DynamicCode, format!("{name} runs code that is downloaded"))
        } else if text.contains(DECODED) {
            (Rule::Obfuscation, format!("{name} runs text that was decoded or decompressed"))
        } else {
            (Rule::DynamicCode, format!("{name} runs text that is computed"))
        };
        self.report(at, rule, message, Some(&name));
    }

    /// Records a call of a tool.
    fn tool(&mut self, at: usize, arguments: &[Words]) {
        let mut words = arguments.iter().map(Words::whole);
        if let (Some(Some(server)), Some(Some(tool))) = (words.next(), words.next())
            && !server.starts_with('-')
            && !tool.starts_with('-')
        {
            let (server, tool) = (server.to_owned(), Some(tool.to_owned()));
            self.found.uses.push(ToolUse { at, server, tool, is_guarded: false });
        }
    }
}

fn single(word: &str) -> Words {
    Words::text(word)
}

/// Whether a mode sets the user or the group.
fn is_set_id(mode: &str) -> bool {
    let is_number = mode.len() >= 4 && mode.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    is_number
        && mode.trim_start_matches('0').len() == 4
        && mode.trim_start_matches('0').starts_with(['2', '3', '4', '5', '6', '7'])
}
