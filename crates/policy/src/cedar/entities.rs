//! Users, servers, tools and code as entities.

use super::types::{Types, uid};
use crate::Groups;
use crate::facts::{About, ExecutionFacts, Facts, Moment};
use crate::names::Spellings;
use cedar_policy::{Context, Entities, Entity, EntityUid, Request, RestrictedExpression};
use coracle_types::{ServerLabel, UserId};
use std::collections::{BTreeSet, HashSet};

type Attributes = Vec<(String, RestrictedExpression)>;

/// A request that is being put together.
pub(super) struct Built {
    pub(super) principal: EntityUid,
    pub(super) action: EntityUid,
    pub(super) resource: EntityUid,
    pub(super) context: Attributes,
    pub(super) entities: Vec<Entity>,
}

impl Types {
    /// Everything about a call except its arguments.
    pub(super) fn call(&self, groups: &Groups, facts: &Facts<'_>) -> Result<Built, String> {
        let (tool, names) = (facts.tool, facts.names);
        let server = uid(&self.server, tool.server.as_str());
        let mut of_server = spellings(&names.server)?;
        of_server.push(("labels".to_owned(), labels(&facts.labels)));
        let mut of_tool = spellings(&names.tool)?;
        of_tool.push(("server".to_owned(), RestrictedExpression::new_entity_uid(server.clone())));
        let hints = [
            ("readOnly", tool.hints.read_only),
            ("destructive", tool.hints.destructive),
            ("idempotent", tool.hints.idempotent),
            ("openWorld", tool.hints.open_world),
        ];
        of_tool.extend(hints.into_iter().filter_map(|(name, hint)| Some(truth(name, hint?))));
        let resource = uid(&self.tool, &format!("{}.{}", tool.server, tool.name));
        let mut context = self::context(About::Call(facts))?;
        let calls = i64::try_from(facts.circumstances.calls).unwrap_or(i64::MAX);
        context.push(("calls".to_owned(), RestrictedExpression::new_long(calls)));
        let user = self.user(groups, facts.user)?;
        Ok(Built {
            principal: user.uid(),
            action: self.call.clone(),
            resource: resource.clone(),
            context,
            entities: vec![user, entity(resource, of_tool, [server.clone()])?, entity(server, of_server, [])?],
        })
    }

    /// A complete request about an execution.
    pub(super) fn execution(&self, groups: &Groups, facts: &ExecutionFacts<'_>) -> Result<(Request, Entities), String> {
        let user = self.user(groups, facts.user)?;
        let code = uid(&self.code, "code");
        let bytes = i64::try_from(facts.bytes).unwrap_or(i64::MAX);
        let attributes = vec![
            text("language", facts.language.as_str()),
            ("bytes".to_owned(), RestrictedExpression::new_long(bytes)),
        ];
        let context = self::context(About::Execution(facts))?;
        let context = Context::from_pairs(context).map_err(|error| error.to_string())?;
        let request = Request::new(user.uid(), self.execute.clone(), code.clone(), context, None);
        let entities = Entities::from_entities([user, entity(code, attributes, [])?], None);
        Ok((request.map_err(|error| error.to_string())?, entities.map_err(|error| error.to_string())?))
    }

    fn user(&self, groups: &Groups, user: &UserId) -> Result<Entity, String> {
        let groups = groups.of(user).iter().map(|group| uid(&self.group, group));
        entity(uid(&self.user, user.as_str()), vec![text("name", user.as_str())], groups)
    }
}

fn entity(
    uid: EntityUid,
    attributes: Attributes,
    parents: impl IntoIterator<Item = EntityUid>,
) -> Result<Entity, String> {
    let parents: HashSet<EntityUid> = parents.into_iter().collect();
    Entity::new(uid, attributes.into_iter().collect(), parents).map_err(|error| error.to_string())
}

/// The names of a server or a tool.
fn spellings(names: &Spellings) -> Result<Attributes, String> {
    let [name, plain, identifier] = names.forms();
    let folded = [text("name", name), text("plain", plain), text("identifier", identifier)];
    let folded = RestrictedExpression::new_record(folded).map_err(|error| error.to_string())?;
    let mut attributes = vec![text("name", names.wire()), text("identifier", names.identifier())];
    attributes.push(("folded".to_owned(), folded));
    attributes.push(truth("hasTwin", !names.is_unique()));
    Ok(attributes)
}

fn labels(labels: &BTreeSet<ServerLabel>) -> RestrictedExpression {
    let name = |label: &ServerLabel| RestrictedExpression::new_string(label.as_str().to_owned());
    RestrictedExpression::new_set(labels.iter().map(name))
}

/// What calls and executions have in common.
fn context(about: About<'_>) -> Result<Attributes, String> {
    let (at, session) = (about.at(), about.session());
    let Moment { epoch, hour, minute, weekday } = Moment::of(at);
    let long = |name: &str, number| (name.to_owned(), RestrictedExpression::new_long(number));
    let time = [long("epoch", epoch), long("hour", hour), long("minute", minute), text("weekday", weekday)];
    let time = RestrictedExpression::new_record(time).map_err(|error| error.to_string())?;
    let mut context = vec![("time".to_owned(), time), text("interface", about.interface().as_str())];
    context.extend(session.map(|session| text("session", session.as_str())));
    context.extend(about.conversation().map(|conversation| text("conversation", conversation)));
    Ok(context)
}

fn text(name: &str, text: &str) -> (String, RestrictedExpression) {
    (name.to_owned(), RestrictedExpression::new_string(text.to_owned()))
}

fn truth(name: &str, truth: bool) -> (String, RestrictedExpression) {
    (name.to_owned(), RestrictedExpression::new_bool(truth))
}
