//! Programs in Python and TypeScript, reduced to what the checks look at.
//!
//! Both languages are lowered to this tree, so that names and values are followed in one place.

/// A part of a program.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Byte offset in the code.
    pub(crate) at: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A literal text, or bytes.
    Text(String),
    Number(i64),
    Name(String),
    /// `object.name`
    Member(Box<Node>, String),
    /// `object[key]`
    Index(Box<Node>, Box<Node>),
    /// A copy in reverse order: `text[::-1]`
    Reverse(Box<Node>),
    Call(Box<Call>),
    /// Parts that are put together to a text.
    Join(Vec<Node>),
    /// Parts of a path: `folder / name`
    Slash(Box<Node>, Box<Node>),
    List(Vec<Node>),
    /// Any of these values.
    Choice(Vec<Node>),
    /// The value of the last one.
    Sequence(Vec<Node>),
    /// Gives a name a value, and has this value.
    Bind(Target, Box<Node>),
    /// Each value of a list in turn.
    Each(Target, Box<Node>),
    /// Binds names without a value that is known: parameters, exceptions, loop variables.
    Unknown(Vec<String>),
    /// Names of this scope that belong to an outer one.
    Outer(Vec<String>),
    Import(Import),
    /// A scope of its own.
    Function {
        parameters: Vec<String>,
        body: Vec<Node>,
    },
    /// The names that it binds are attributes.
    Class {
        name: Option<String>,
        body: Vec<Node>,
    },
    /// A loop without an end.
    Forever(Vec<Node>),
    /// Statements whose exceptions are handled.
    Guarded(Vec<Node>),
    /// Everything else: the parts count, the value is unknown.
    Other(Vec<Node>),
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) callee: Node,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) is_new: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) name: Option<String>,
    pub(crate) is_spread: bool,
    pub(crate) value: Node,
}

/// What a value is assigned to.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Name(String),
    /// Names that get parts of the value. Empty keys are unknown parts.
    Parts(Vec<(String, Key)>),
    /// An attribute or an element. Its parts are evaluated.
    Place(Box<Node>),
}

/// Which part of a value a name gets.
#[derive(Clone, Debug)]
pub(crate) enum Key {
    Number(usize),
    Name(String),
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Import {
    /// Dotted path of the module.
    pub(crate) module: String,
    /// The module as the code spells it.
    pub(crate) spelled: String,
    /// Names that are imported from it, and their names in the code.
    pub(crate) names: Vec<(String, String)>,
    /// The name of the module itself in the code, with the path that it stands for.
    pub(crate) whole: Option<(String, String)>,
    /// Whether all names of the module are imported.
    pub(crate) is_star: bool,
    /// Whether only types are imported.
    pub(crate) is_type: bool,
}

impl Node {
    pub(crate) fn new(at: usize, kind: Kind) -> Self {
        Self { at, kind }
    }

    pub(crate) fn other(at: usize, parts: Vec<Node>) -> Self {
        Self::new(at, Kind::Other(parts))
    }
}
