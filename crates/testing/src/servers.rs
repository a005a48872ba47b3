//! Settings of MCP servers that tests start.

use coracle_types::{Scope, Secret, ServerName, ServerSpec, Transport};
use std::time::Duration;

/// Server that is a Python program of the tests, with its arguments and environment.
pub fn python(name: &str, scope: Scope, arguments: &[&str], environment: &[(&str, &str)]) -> ServerSpec {
    let environment = environment.iter().map(|&(name, value)| (name.to_owned(), Secret::new(value)));
    ServerSpec {
        name: ServerName::new(name).unwrap(),
        transport: Transport::Stdio {
            command: "/usr/bin/python3".to_owned(),
            args: std::iter::once(&"-I").chain(arguments).map(|&argument| Secret::new(argument)).collect(),
            env: environment.collect(),
            cwd: None,
        },
        scope,
        description: None,
        category: None,
        client: None,
        start_timeout: Duration::from_mins(1),
        call_timeout: Duration::from_mins(1),
    }
}
