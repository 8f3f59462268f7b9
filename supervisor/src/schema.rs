//! Arguments against the JSON Schema of a tool, before the guest is entered.

use jsonschema::{PatternOptions, ValidationError};
use serde_json::Value;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Largest schema in bytes.
pub const MAX_SCHEMA: usize = 1 << 20;
/// Largest compiled regular expression of a schema in bytes, and how many there may be.
const MAX_REGEX: usize = 1 << 20;
const MAX_REGEXES: usize = 256;
/// Most errors that are named.
const MAX_ERRORS: usize = 3;
/// How long a schema with references may take.
const LONGEST: Duration = Duration::from_secs(5);
/// What refers to another part of a schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// What holds regular expressions.
const PATTERNS: [&str; 2] = ["pattern", "patternProperties"];
/// Schemas that took too long: their digests. Each has left a thread behind.
static LATE: Mutex<Vec<[u8; 32]>> = Mutex::new(Vec::new());
/// Most of them; then no schema with references is checked any more.
const MOST_LATE: usize = 8;

/// Check arguments; the error is one line.
///
/// The schema comes from the component: it is bounded, remote references are never fetched, and a schema that cannot be
/// used refuses the call.
pub fn validate(schema: &str, arguments: &Value) -> Result<(), String> {
    in_time(schema, arguments, |error| error.to_string())
}

/// The same for arguments that may be secret: the error does not repeat them.
pub fn validate_secret(schema: &str, arguments: &Value) -> Result<(), String> {
    in_time(schema, arguments, |error| error.masked().to_string())
}

/// A schema whose parts refer to each other can take for ever: such a one is checked by a thread of its own, which is left
/// behind where it does. That happens once for a schema, and a few times at most.
fn in_time(schema: &str, arguments: &Value, show: fn(&ValidationError<'_>) -> String) -> Result<(), String> {
    if schema.len() > MAX_SCHEMA {
        return Err(format!("the schema has more than {MAX_SCHEMA} bytes"));
    }
    let parsed: Value = serde_json::from_str(schema).map_err(|e| format!("the schema is not JSON: {e}"))?;
    let mut found = Found::default();
    found.look(&parsed);
    if found.regexes > MAX_REGEXES {
        return Err(format!("the schema has more than {MAX_REGEXES} regular expressions"));
    }
    if !found.references {
        return check(&parsed, arguments, show);
    }
    let late = || Err(format!("the schema takes more than {LONGEST:?} to check"));
    let digest = *blake3::hash(schema.as_bytes()).as_bytes();
    let before = || LATE.lock().unwrap_or_else(PoisonError::into_inner);
    if before().contains(&digest) || before().len() >= MOST_LATE {
        return late();
    }
    let (sender, receiver) = channel();
    let arguments = arguments.clone();
    let work = move || _ = sender.send(check(&parsed, &arguments, show));
    let started = std::thread::Builder::new().name("schema".into()).spawn(work);
    started.map_err(|e| format!("the schema cannot be checked: {e}"))?;
    receiver.recv_timeout(LONGEST).unwrap_or_else(|_| {
        before().push(digest);
        late()
    })
}

/// What of a schema can cost more than its length. It is looked for in what was parsed: text can be spelled in many ways.
#[derive(Default)]
struct Found {
    references: bool,
    regexes: usize,
}

impl Found {
    /// A parser bounds how deep a value is.
    fn look(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                for (key, value) in members {
                    self.references |= REFERENCES.contains(&key.as_str());
                    if PATTERNS.contains(&key.as_str()) {
                        self.regexes += value.as_object().map_or(1, serde_json::Map::len);
                    }
                    self.look(value);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.look(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn check(schema: &Value, arguments: &Value, show: fn(&ValidationError<'_>) -> String) -> Result<(), String> {
    let validator = jsonschema::options()
        .with_pattern_options(PatternOptions::regex().size_limit(MAX_REGEX))
        .build(schema)
        .map_err(|e| format!("the schema cannot be used: {e}"))?;
    let errors: Vec<String> = validator
        .iter_errors(arguments)
        .take(MAX_ERRORS)
        .map(|e| {
            let place = e.instance_path().to_string();
            if place.is_empty() { show(&e) } else { format!("{place}: {}", show(&e)) }
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(act_policy::escape(&errors.join("; "))) }
}

/// Make what all schemas share (the meta-schemas), so that the first call does not wait for it.
pub fn warm_up() {
    // An empty schema would not be looked up in the meta-schema at all.
    const USUAL: &str = r#"{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {"a": {"type": "string"}}, "required": ["a"]}"#;
    let _ = validate(USUAL, &Value::Null);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_checked() {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
        assert_eq!(validate(schema, &json!({"path": "x"})), Ok(()));
        assert_eq!(validate(schema, &json!({"path": 5})).unwrap_err(), "/path: 5 is not of type \"string\"");
        assert!(validate(schema, &json!({})).unwrap_err().contains("\"path\" is a required property"));
        let error = validate_secret(schema, &json!({"path": 271_828})).unwrap_err();
        assert!(error.contains("/path: ") && error.contains("is not of type") && !error.contains("271828"), "{error}");
    }

    #[test]
    fn a_schema_that_takes_for_ever_is_given_up() {
        let mut definitions = serde_json::Map::new();
        for n in 0..40 {
            let next = format!("#/$defs/a{}", n + 1);
            definitions.insert(format!("a{n}"), json!({"allOf": [{"$ref": next}, {"$ref": next, "title": "x"}]}));
        }
        definitions.insert("a40".into(), json!({"type": "string"}));
        let schema = json!({"$defs": definitions, "$ref": "#/$defs/a0"}).to_string();
        // However the word is spelled.
        for schema in [schema.clone(), schema.replace("$ref", "$\\u0072ef"), schema.replace("$ref", "\\u0024r\\u0065f")]
        {
            let start = std::time::Instant::now();
            assert!(validate(&schema, &json!(5)).is_err());
            assert!(start.elapsed() < 2 * LONGEST, "{:?}", start.elapsed());
            // The second time it is known, and leaves no second thread behind.
            let start = std::time::Instant::now();
            assert!(validate(&schema, &json!(5)).unwrap_err().contains("takes more than"));
            assert!(start.elapsed() < LONGEST / 5, "{:?}", start.elapsed());
        }
    }

    #[test]
    fn regular_expressions_are_few() {
        let with = |count: usize| {
            let all: Vec<Value> = (0..count).map(|n| json!({"pattern": format!("^{n}")})).collect();
            json!({ "anyOf": all }).to_string()
        };
        assert_eq!(validate(&with(MAX_REGEXES), &json!("0")), Ok(()));
        assert!(validate(&with(MAX_REGEXES + 1), &json!("0")).unwrap_err().contains("regular expressions"));
    }

    #[test]
    fn errors_hold_no_control_characters() {
        let error = validate("{\"pattern\": \"^\\u001b]0;x\\u0007$\"}", &json!("b")).unwrap_err();
        assert!(!error.contains(char::is_control), "{error:?}");
    }

    #[test]
    fn schemas_that_cannot_be_used_refuse_the_call() {
        for schema in ["", "[", "{\"type\": 5}", "{\"$ref\": \"https://example.invalid/s.json\"}"] {
            assert!(validate(schema, &json!({})).is_err(), "{schema}");
        }
    }
}
