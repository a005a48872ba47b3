//! Groups tools of several servers that do the same thing.

use super::{Hit, words};
use crate::catalog::{Catalog, Entry};

/// The minimum similarity of the descriptions of two tools with the same name that do the same thing.
const SAME: f32 = 0.8;

/// A search result, and equivalent tools of other servers.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The best match.
    pub hit: Hit<'a>,
    /// The other tools, best first.
    pub also: Vec<&'a Entry>,
}

impl Catalog {
    /// Groups tools that do the same thing. A group takes the position of its best tool.
    pub fn grouped(hits: Vec<Hit<'_>>) -> Vec<Group<'_>> {
        let mut groups: Vec<(Vec<String>, Group<'_>)> = Vec::new();
        for hit in hits {
            let name = bare_name(hit.entry);
            let same = groups.iter_mut().find(|(other, group)| {
                *other == name && group.hit.entry.server != hit.entry.server && is_alike(group.hit.entry, hit.entry)
            });
            match same {
                Some((_, group)) => group.also.push(hit.entry),
                None => groups.push((name, Group { hit, also: Vec::new() })),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

fn is_alike(one: &Entry, other: &Entry) -> bool {
    if one.summary == other.summary {
        return true;
    }
    let likeness: f32 =
        super::meaning(&one.summary).iter().zip(super::meaning(&other.summary)).map(|(one, other)| one * other).sum();
    likeness >= SAME
}

/// The words of a tool's name without those of its server's name.
fn bare_name(entry: &Entry) -> Vec<String> {
    let of_server = words::terms(&entry.server);
    let mut terms = words::terms(&entry.name);
    let all = terms.clone();
    terms.retain(|term| !of_server.contains(term));
    if terms.is_empty() { all } else { terms }
}
