//! Tool names of permission rules.

use super::{Hits, Listed, Names};
use crate::glob::KeyGlob;
use crate::pattern::{PatternError, is_glob, key_glob};

#[derive(Debug, Default)]
pub(crate) struct ToolIndex {
    /// Rules by `id.tool`, which a narrowing rule is compared with however the dots are read.
    names: Names<String, Vec<Entry>>,
    /// Rules for all tools of an id.
    whole: Names<String, Vec<Entry>>,
    /// Rules with other wildcards.
    wild: Vec<(Entry, Option<KeyGlob>, KeyGlob)>,
}

#[derive(Debug)]
struct Entry {
    listed: Listed,
    component: Option<String>,
}

impl ToolIndex {
    pub(crate) fn add(&mut self, listed: Listed, component: &str, tool: &str) -> Result<(), PatternError> {
        let entry = Entry { listed, component: Some(component.to_owned()) };
        match (is_glob(component), is_glob(tool)) {
            (false, false) => self.names.entry(format!("{component}.{tool}")).or_default().push(entry),
            (false, true) if tool == "*" => self.whole.entry(component.to_owned()).or_default().push(entry),
            _ => {
                let component = if component == "*" { None } else { Some(key_glob(component)?) };
                self.wild.push((entry, component, key_glob(tool)?));
            }
        }
        Ok(())
    }

    pub(crate) fn find(&self, component: &str, tool: &str) -> Hits {
        let mut hits = Hits::default();
        let name = format!("{component}.{tool}");
        for entry in self.names.get(&name).into_iter().flatten() {
            // `a.b.c` may be tool `c` of `a.b` or `b.c` of `a`: an allow means what it says, the rest means both.
            if entry.listed.list.narrows() || entry.component.as_deref() == Some(component) {
                hits.add(entry.listed);
            }
        }
        // The id, and every prefix of the name that could be one.
        for (dot, _) in name.match_indices('.') {
            let id = name.get(..dot).unwrap_or_default();
            for entry in self.whole.get(id).into_iter().flatten() {
                if entry.listed.list.narrows() || id == component {
                    hits.add(entry.listed);
                }
            }
        }
        for (entry, id, glob) in &self.wild {
            if id.as_ref().is_none_or(|id| id.matches(component)) && glob.matches(tool) {
                hits.add(entry.listed);
            }
        }
        hits
    }
}
