//! The same rules as policies of cedar-policy, where they can be said there.

use crate::rules::{Rule, What};
use anyhow::{Context as _, Result};
use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityId, EntityTypeName, EntityUid, PolicySet, Request,
    RestrictedExpression,
};
use std::collections::{HashMap, HashSet};
use std::str::FromStr as _;

/// How a prefix is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// `resource in Folder::"…"`: a walk of the entities' parents.
    In,
    /// `resource.path like "…/*"`: a comparison of text.
    Like,
}

pub(crate) struct Cedar {
    authorizer: Authorizer,
    policies: PolicySet,
}

/// A request with the entities that it needs, made before any clock runs.
pub(crate) struct Asked {
    request: Request,
    entities: Entities,
}

/// The policies as text; `None` where a rule cannot be said or is not compared.
pub(crate) fn text(rules: &[Rule], prefix: Prefix) -> Option<String> {
    let mut text = String::new();
    for Rule { deny, what } in rules {
        let effect = if *deny { "forbid" } else { "permit" };
        let policy = match (what, prefix) {
            (What::Path(path), Prefix::In) => format!(r#"(principal, action, resource in Path::"{path}");"#),
            (What::Path(path), Prefix::Like) => format!(
                r#"(principal, action, resource) when {{ resource.path == "{path}" || resource.path like "{path}/*" }};"#
            ),
            (What::Tool(id, Some(tool)), Prefix::In) => {
                format!(r#"(principal, action, resource == Tool::"{id}.{tool}");"#)
            }
            (What::Tool(id, None), Prefix::In) => format!(r#"(principal, action, resource in Component::"{id}");"#),
            _ => return None,
        };
        text.push_str(effect);
        text.push_str(&policy);
        text.push('\n');
    }
    Some(text)
}

impl Cedar {
    pub(crate) fn new(text: &str) -> Result<Self> {
        Ok(Self { authorizer: Authorizer::new(), policies: PolicySet::from_str(text)? })
    }

    pub(crate) fn allows(&self, asked: &Asked) -> bool {
        let answer = self.authorizer.is_authorized(&asked.request, &self.policies, &asked.entities);
        answer.decision() == Decision::Allow
    }
}

fn uid(kind: &str, id: &str) -> Result<EntityUid> {
    Ok(EntityUid::from_type_name_and_id(EntityTypeName::from_str(kind)?, EntityId::new(id)))
}

impl Asked {
    pub(crate) fn new(what: &What) -> Result<Self> {
        let resource = match what {
            What::Path(path) => {
                let above = path.match_indices('/').skip(1).filter_map(|(slash, _)| path.get(..slash));
                let parents = above.map(|folder| uid("Path", folder)).collect::<Result<HashSet<_>>>()?;
                let text = RestrictedExpression::new_string(path.clone());
                Entity::new(uid("Path", path)?, HashMap::from([("path".to_owned(), text)]), parents)?
            }
            What::Tool(id, tool) => {
                let tool = tool.as_deref().context("a call names a tool")?;
                let parents = HashSet::from([uid("Component", id)?]);
                Entity::new(uid("Tool", &format!("{id}.{tool}"))?, HashMap::new(), parents)?
            }
            _ => anyhow::bail!("not compared"),
        };
        let action = uid("Action", "do")?;
        let request = Request::new(uid("Agent", "agent")?, action, resource.uid(), Context::empty(), None)?;
        Ok(Self { request, entities: Entities::from_entities([resource], None)? })
    }
}
