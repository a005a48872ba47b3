//! Types between JSON Schema and source text, limited to what both languages can express.

use std::collections::BTreeSet;

/// The type of a value in generated code.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// The type is unknown or cannot be expressed.
    Any,
    Null,
    Boolean,
    Integer,
    Number,
    Text,
    /// One of these values.
    Literals(Vec<Literal>),
    Array(Box<Type>),
    Tuple(Vec<Type>),
    /// An object whose keys are data.
    Map(Box<Type>),
    Union(Vec<Type>),
    /// An object with known fields: an index into [`Module::records`].
    Record(usize),
}

/// A value in a literal type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Boolean(bool),
    Integer(i64),
    Text(String),
}

/// An object with known fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// The name, unique in its module.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) fields: Vec<Field>,
    /// Whether there may be other fields.
    pub(crate) open: bool,
}

/// One field of a record, or one argument of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) wire: String,
    pub(crate) kind: Type,
    pub(crate) required: bool,
    pub(crate) description: String,
}

/// The origin of a result type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The server's output schema.
    Schema,
    /// Earlier results. The number of results is not included, because it would change the text each time.
    Learned,
    Unknown,
}

/// The contents of a tool's generated module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Module {
    /// The server's name on the wire.
    pub(crate) server: String,
    /// The tool's name on the wire.
    pub(crate) tool: String,
    /// The function in both languages.
    pub(crate) function: String,
    pub(crate) description: String,
    pub(crate) arguments: Vec<Field>,
    /// The type of arguments that the schema does not name, if it allows them.
    pub(crate) more: Option<Type>,
    pub(crate) result: Type,
    pub(crate) source: Source,
    pub(crate) records: Vec<Record>,
}

impl Type {
    /// The union of these types, flat and without duplicates. `Any` absorbs the rest.
    pub(crate) fn union(parts: impl IntoIterator<Item = Type>) -> Self {
        let mut flat: Vec<Type> = Vec::new();
        let mut literals: Vec<Literal> = Vec::new();
        for part in parts {
            match part {
                Self::Any => return Self::Any,
                Self::Union(inner) => {
                    for part in inner {
                        push(&mut flat, &mut literals, part);
                    }
                }
                other => push(&mut flat, &mut literals, other),
            }
        }
        if !literals.is_empty() {
            flat.push(Self::Literals(literals));
        }
        // By convention, `null` comes last.
        if let Some(place) = flat.iter().position(|part| *part == Self::Null) {
            let null = flat.remove(place);
            flat.push(null);
        }
        match flat.len() {
            0 => Self::Any,
            1 => flat.remove(0),
            _ => Self::Union(flat),
        }
    }

    /// Whether this type mentions any record.
    pub(crate) fn mentions_record(&self) -> bool {
        let mut found = BTreeSet::new();
        self.mentions(&mut found);
        !found.is_empty()
    }

    /// The records that this type mentions.
    fn mentions(&self, found: &mut BTreeSet<usize>) {
        match self {
            Self::Array(inner) | Self::Map(inner) => inner.mentions(found),
            Self::Tuple(parts) | Self::Union(parts) => parts.iter().for_each(|part| part.mentions(found)),
            Self::Record(index) => {
                found.insert(*index);
            }
            Self::Any | Self::Null | Self::Boolean | Self::Integer | Self::Number | Self::Text | Self::Literals(_) => {}
        }
    }
}

fn push(flat: &mut Vec<Type>, literals: &mut Vec<Literal>, part: Type) {
    match part {
        Type::Literals(values) => {
            for value in values {
                if !literals.contains(&value) {
                    literals.push(value);
                }
            }
        }
        other if flat.contains(&other) => {}
        other => flat.push(other),
    }
}

impl Module {
    /// The records that the signature needs, in order, and whether each is part of a result.
    pub(crate) fn used_records(&self) -> Vec<(&Record, bool)> {
        let mut given = BTreeSet::new();
        self.arguments.iter().for_each(|field| field.kind.mentions(&mut given));
        self.more.iter().for_each(|kind| kind.mentions(&mut given));
        let mut returned = BTreeSet::new();
        self.result.mentions(&mut returned);
        let (given, returned) = (self.reachable(given), self.reachable(returned));
        let used = given.union(&returned);
        used.filter_map(|index| Some((self.records.get(*index)?, returned.contains(index)))).collect()
    }

    fn reachable(&self, mut pending: BTreeSet<usize>) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        while let Some(index) = pending.pop_first() {
            if !reached.insert(index) {
                continue;
            }
            let Some(record) = self.records.get(index) else { continue };
            let mut found = BTreeSet::new();
            record.fields.iter().for_each(|field| field.kind.mentions(&mut found));
            pending.extend(found.difference(&reached));
        }
        reached
    }
}
