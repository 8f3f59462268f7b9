//! `act:consent`: semantic actions that a component announces and asks leave for.
//!
//! The component learns allow or deny and nothing else: why, stands in the audit trail. What it says about the action is
//! untrusted: the class, the key and the arguments are judged as they are, the summary is only ever shown.

use crate::bindings::component::act::consent::consent_authority::{ConsentRequest, Decision, Host, HostWithStore};
use crate::bindings::component::act::consent::types;
use crate::bindings::component::act::core::types as core;
use crate::state::{ActImports, Imports};
use act_policy::{Decision as Verdict, Reason, Request};
use ciborium::Value;
use wasmtime::component::Accessor;

/// Longest class and key in bytes. What is longer is no name of a thing that a rule could mean.
const MAX_CLASS: usize = 256;
const MAX_KEY: usize = 4096;
/// Most arguments, and most bytes of them.
const MAX_ARGUMENTS: usize = 64;
const MAX_ENCODED: usize = 64 << 10;
/// Deepest nesting of the arguments.
const MAX_DEPTH: usize = 16;

impl core::Host for Imports<'_> {}
impl types::Host for Imports<'_> {}
impl Host for Imports<'_> {}

impl<T: Send> HostWithStore<T> for ActImports {
    async fn request(
        accessor: &Accessor<T, Self>,
        asked: ConsentRequest,
        _: core::Metadata,
    ) -> wasmtime::Result<Decision> {
        let gate = accessor.with(|mut access| access.get().gate.clone());
        let ConsentRequest { class, key, summary, args } = asked;
        let fits = class.len() <= MAX_CLASS && key.len() <= MAX_KEY;
        let Some(arguments) = arguments(&args).filter(|_| fits) else {
            let request = Request::Consent { class: cut(class, MAX_CLASS), key: cut(key, MAX_KEY), arguments: vec![] };
            crate::gate::refuse(&*gate, request, Reason::Malformed);
            return Ok(Decision::Deny);
        };
        let request = Request::Consent { class, key, arguments };
        let allowed = match gate.judge(request.clone()).decision {
            Verdict::Allow => true,
            Verdict::Deny => false,
            Verdict::Ask => gate.ask_about(request, words(summary)).await,
        };
        Ok(if allowed { Decision::Allow } else { Decision::Deny })
    }
}

/// The dimensions that rules can name: text, whole numbers and truth values of one CBOR map.
///
/// Anything else in the map has no form that a pattern could match, so it is left out; a rule that names it then takes it
/// as not sent. `None`: not such a map, or a key twice, so that it would depend on the reader what was asked.
fn arguments(encoded: &[u8]) -> Option<Vec<(String, String)>> {
    if encoded.is_empty() {
        return Some(Vec::new());
    }
    if encoded.len() > MAX_ENCODED {
        return None;
    }
    let mut rest = encoded;
    let value: Value = ciborium::de::from_reader_with_recursion_limit(&mut rest, MAX_DEPTH).ok()?;
    let members = match value {
        Value::Map(members) if members.len() <= MAX_ARGUMENTS => members,
        Value::Null => Vec::new(),
        _ => return None,
    };
    let mut names = std::collections::HashSet::new();
    let mut arguments = Vec::new();
    for (name, value) in members {
        let Value::Text(name) = name else { return None };
        if !names.insert(name.clone()) {
            return None;
        }
        let value = match value {
            Value::Text(text) => text,
            Value::Integer(number) => i128::from(number).to_string(),
            Value::Bool(value) => value.to_string(),
            _ => continue,
        };
        arguments.push((name, value));
    }
    rest.is_empty().then_some(arguments)
}

/// The component's own words, cut to what a human would read.
pub(crate) fn words(text: String) -> String {
    /// Longest words in bytes.
    const LONGEST: usize = 1024;
    cut(text, LONGEST)
}

/// At most so many bytes, whole characters.
pub(crate) fn cut(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
}
