//! Secrets on their way to the one component that may read them.

use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroize as _;

/// A credential with its values.
#[derive(Debug, Serialize, Deserialize)]
pub struct Secret {
    /// Shape of the secret, a namespaced string.
    pub kind: String,
    /// Its fields.
    pub fields: Fields,
}

/// Field names and CBOR values. Shown without the values, and overwritten when dropped.
#[derive(Default, Serialize, Deserialize)]
pub struct Fields(Vec<(String, Vec<u8>)>);

impl Fields {
    /// Fields in order.
    pub fn new(pairs: Vec<(String, Vec<u8>)>) -> Self {
        Self(pairs)
    }

    /// Take the fields out; from there on their owner has to take care of them.
    pub fn into_pairs(mut self) -> Vec<(String, Vec<u8>)> {
        std::mem::take(&mut self.0)
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Drop for Fields {
    fn drop(&mut self) {
        for (_, value) in &mut self.0 {
            value.zeroize();
        }
    }
}

/// What a component may know of a stored credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretInfo {
    /// Its key.
    pub key: String,
    /// Shape of the secret.
    pub kind: String,
    /// The component's own description of it.
    pub description: Option<String>,
}

/// Why a credential was not handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretRefusal {
    /// There is none under this key that the component declares.
    NotFound,
    /// The policy, or a human, said no.
    Denied,
    /// No session of that id is open.
    InvalidSession,
    /// The store cannot be read.
    Unavailable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        let secret = Secret { kind: "k".into(), fields: Fields::new(vec![("token".into(), b"\x67hunter2".to_vec())]) };
        let shown = format!("{secret:?}");
        assert!(shown.contains("token") && !shown.contains("104") && !shown.contains("hunter2"), "{shown}");
    }
}
