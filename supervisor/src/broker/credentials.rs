//! Credentials: read from the user's store for the one component that declares them.
//!
//! The store is read anew for every question, so that what `act secret` changes holds at once and no secret stays in
//! memory for longer than its answer takes.

use crate::secrets::{Ask, Content, Nobody, SecretsError, Store};
use act_policy::{Credential, Manifest};
use act_wire::{Fields, Secret, SecretInfo};

/// The shape of all secrets here: named fields.
const KIND: &str = "std:fields";

/// What one component may ask for.
#[derive(Debug)]
pub struct Credentials {
    component: String,
    declared: Vec<Credential>,
    store: Option<Store>,
}

/// Why there is no secret.
#[derive(Debug)]
pub enum NoSecret {
    /// The component never declared such a key.
    Undeclared,
    /// Nothing is stored for it.
    NotStored,
    /// The store cannot be read.
    Store(SecretsError),
}

impl Credentials {
    /// Those that a manifest declares.
    pub fn new(manifest: &Manifest) -> Self {
        Self { component: manifest.name.clone(), declared: manifest.credentials.clone(), store: None }
    }

    /// Get hold of the store's key before the component runs, while somebody can be asked for it.
    pub fn unlock(&mut self, ask: &mut dyn Ask) -> Result<(), SecretsError> {
        if self.declared.is_empty() { Ok(()) } else { self.store()?.unlock(ask) }
    }

    /// Read a secret. Whether the component may have it was decided before.
    pub fn get(&mut self, key: &str) -> Result<Secret, NoSecret> {
        let declared = self.declared.iter().find(|c| c.key == key).cloned().ok_or(NoSecret::Undeclared)?;
        let content = self.content().map_err(NoSecret::Store)?;
        let fields: Vec<(String, Vec<u8>)> = content
            .fields(&self.component, key)
            .into_iter()
            .flatten()
            .filter(|(name, _)| declared.fields.is_empty() || declared.field(name).is_some())
            .map(|(name, value)| (name.to_owned(), value.cbor().to_vec()))
            .collect();
        if fields.is_empty() {
            return Err(NoSecret::NotStored);
        }
        Ok(Secret { kind: KIND.into(), fields: Fields::new(fields) })
    }

    /// What is stored of what the component declares, as far as `visible` says.
    pub fn list(&mut self, visible: impl Fn(&str) -> bool) -> Result<Vec<SecretInfo>, SecretsError> {
        if self.declared.is_empty() {
            return Ok(Vec::new());
        }
        let content = self.content()?;
        let stored = |c: &&Credential| content.fields(&self.component, &c.key).is_some() && visible(&c.key);
        let info =
            |c: &Credential| SecretInfo { key: c.key.clone(), kind: KIND.into(), description: c.description.clone() };
        Ok(self.declared.iter().filter(stored).map(info).collect())
    }

    fn content(&mut self) -> Result<Content, SecretsError> {
        // While the component runs nobody is asked: the answer would come into the middle of its output.
        self.store()?.read(&mut Nobody)
    }

    fn store(&mut self) -> Result<&mut Store, SecretsError> {
        let store = match self.store.take() {
            Some(store) => store,
            None => Store::of_user()?,
        };
        Ok(self.store.insert(store))
    }
}
