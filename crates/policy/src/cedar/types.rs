use crate::problem::PolicyProblem;
use cedar_policy::{EntityId, EntityTypeName, EntityUid};
use std::str::FromStr as _;

/// The types and fixed entities of the schema, parsed once.
#[derive(Clone, Debug)]
pub(crate) struct Types {
    pub(super) group: EntityTypeName,
    pub(super) user: EntityTypeName,
    pub(super) server: EntityTypeName,
    pub(super) tool: EntityTypeName,
    pub(super) code: EntityTypeName,
    pub(super) call: EntityUid,
    pub(super) execute: EntityUid,
    pub(super) texts: EntityUid,
    pub(super) longs: EntityUid,
    pub(super) decimals: EntityUid,
    pub(super) bools: EntityUid,
    pub(super) sets: EntityUid,
}

impl Types {
    pub(crate) fn new() -> Result<Self, PolicyProblem> {
        let kind = |name: &str| {
            EntityTypeName::from_str(name).map_err(|error| PolicyProblem::new("the schema", error.to_string()))
        };
        let entity = |name: &str, id: &str| Ok(uid(&kind(name)?, id));
        Ok(Self {
            group: kind("Group")?,
            user: kind("User")?,
            server: kind("Server")?,
            tool: kind("Tool")?,
            code: kind("Code")?,
            call: entity("Action", "call")?,
            execute: entity("Action", "execute")?,
            texts: entity("Texts", "args")?,
            longs: entity("Longs", "args")?,
            decimals: entity("Decimals", "args")?,
            bools: entity("Bools", "args")?,
            sets: entity("Sets", "args")?,
        })
    }
}

pub(super) fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}
