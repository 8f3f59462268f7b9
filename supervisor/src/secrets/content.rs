//! What the store holds once it is decrypted: component name → credential → field → value.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use zeroize::Zeroizing;

/// The value of a field: CBOR, as the component will get it. Overwritten when dropped, and never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value(Zeroizing<Vec<u8>>);

impl Value {
    /// A value in CBOR.
    pub fn new(cbor: Vec<u8>) -> Self {
        Self(Zeroizing::new(cbor))
    }

    /// The CBOR.
    pub fn cbor(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

type Fields = BTreeMap<String, Value>;

/// All secrets.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    components: BTreeMap<String, BTreeMap<String, Fields>>,
}

impl Content {
    /// The fields of a credential, if any are stored.
    pub fn fields(&self, component: &str, key: &str) -> Option<impl Iterator<Item = (&str, &Value)>> {
        let fields = self.components.get(component)?.get(key)?;
        Some(fields.iter().map(|(name, value)| (name.as_str(), value)))
    }

    /// Store a field; the value that was there is replaced.
    pub fn set(&mut self, component: &str, key: &str, field: &str, value: Value) {
        let credentials = self.components.entry(component.to_owned()).or_default();
        credentials.entry(key.to_owned()).or_default().insert(field.to_owned(), value);
    }

    /// Remove a component's secrets, one credential of it, or one field of that; how many fields went.
    pub fn remove(&mut self, component: &str, key: Option<&str>, field: Option<&str>) -> usize {
        let Some(credentials) = self.components.get_mut(component) else { return 0 };
        let before = count(credentials);
        match (key, field) {
            (None, _) => credentials.clear(),
            (Some(key), None) => drop(credentials.remove(key)),
            (Some(key), Some(field)) => drop(credentials.get_mut(key).and_then(|fields| fields.remove(field))),
        }
        credentials.retain(|_, fields| !fields.is_empty());
        let removed = before - count(credentials);
        self.components.retain(|_, credentials| !credentials.is_empty());
        removed
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.components.is_empty()
    }

    /// The names of all that is stored: component, credential, fields.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str, Vec<&str>)> {
        self.components.iter().flat_map(|(component, credentials)| {
            credentials.iter().map(move |(key, fields)| {
                (component.as_str(), key.as_str(), fields.keys().map(String::as_str).collect())
            })
        })
    }

    /// Bytes for the file.
    pub(super) fn encode(&self) -> Option<Zeroizing<Vec<u8>>> {
        // Room for all of it from the start: a buffer that grows leaves copies behind.
        let room: usize =
            self.names().map(|(c, k, f)| c.len() + k.len() + f.iter().map(|f| f.len()).sum::<usize>()).sum();
        let values = self.components.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        let room = values.fold(room, |sum, value| sum + value.0.len() + 64);
        postcard::to_extend(self, Vec::with_capacity(room + 64)).ok().map(Zeroizing::new)
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes(bytes) {
            Ok((content, [])) => Some(content),
            _ => None,
        }
    }
}

fn count(credentials: &BTreeMap<String, Fields>) -> usize {
    credentials.values().map(BTreeMap::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_can_be_read_listed_and_removed() {
        let mut content = Content::default();
        for (component, key, field, value) in [
            ("a", "k", "f", "1"),
            ("a", "k", "g", "2"),
            ("a", "l", "f", "3"),
            ("b", "k", "f", "4"),
            ("a", "k", "f", "5"),
        ] {
            content.set(component, key, field, Value::new(value.into()));
        }
        let read = |content: &Content, component: &str, key: &str| -> Vec<(String, Vec<u8>)> {
            let fields = content.fields(component, key).into_iter().flatten();
            fields.map(|(name, value)| (name.to_owned(), value.cbor().to_vec())).collect()
        };
        assert_eq!(read(&content, "a", "k"), [("f".into(), b"5".to_vec()), ("g".into(), b"2".to_vec())]);
        assert!(content.fields("b", "l").is_none());
        let names: Vec<_> = content.names().collect();
        assert_eq!(names, [("a", "k", vec!["f", "g"]), ("a", "l", vec!["f"]), ("b", "k", vec!["f"])]);
        assert!(!format!("{content:?}").contains("53"));

        let bytes = content.encode().unwrap();
        assert_eq!(Content::decode(&bytes).as_ref(), Some(&content));
        assert_eq!(Content::decode(&bytes[1..]), None);

        assert_eq!(content.remove("a", Some("k"), Some("g")), 1);
        assert_eq!(content.remove("a", Some("k"), Some("g")), 0);
        assert_eq!(content.remove("a", None, None), 2);
        assert_eq!(content.remove("nobody", None, None), 0);
        assert_eq!(content.remove("b", Some("k"), None), 1);
        assert!(content.is_empty());
    }
}
