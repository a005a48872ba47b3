/// Who gets what an execution returns and reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// A model: an MCP client, the agent, or a program of which it is not known.
    #[default]
    Model,
    /// A person, at the terminal or at the page, or a program that works for the person.
    Person,
}
