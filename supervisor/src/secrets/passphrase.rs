//! A passphrase: where it comes from, and the store's key under it.

use super::SecretsError;
use super::file::{Cost, Id, Key, Slot, open, random, seal};
use argon2::{Algorithm, Argon2, Params, Version};
use std::io::Read as _;
use zeroize::Zeroizing;

/// What a guess costs in new stores: the second choice of RFC 9106 §4, about a tenth of a second here.
const COST: Cost = Cost { memory: 64 << 10, passes: 3, lanes: 4 };
/// Longest passphrase in bytes.
const LONGEST: usize = 4096;
/// Names a file that holds the passphrase.
pub const VARIABLE: &str = "ACT_PASSPHRASE_FILE";

/// Somebody who may be asked for a passphrase.
pub trait Ask {
    /// One line, typed without being seen; `None`: nobody is there.
    fn hidden(&mut self, prompt: &str) -> Result<Option<Zeroizing<String>>, SecretsError>;

    /// Tell something that is not an error.
    fn tell(&mut self, text: &str);
}

/// Nobody.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Ask for Nobody {
    fn hidden(&mut self, _: &str) -> Result<Option<Zeroizing<String>>, SecretsError> {
        Ok(None)
    }

    fn tell(&mut self, _: &str) {}
}

/// The passphrase in the file that the environment names, without the line break at its end.
pub(super) fn from_file() -> Result<Option<Zeroizing<String>>, SecretsError> {
    let Some(path) = std::env::var_os(VARIABLE).filter(|p| !p.is_empty()) else { return Ok(None) };
    let shown = act_policy::escape(&path.to_string_lossy());
    let fail = |reason: String| SecretsError::PassphraseFile(format!("{shown}: {reason}"));
    let file = std::fs::File::open(&path).map_err(|e| fail(e.to_string()))?;
    let mut text = Zeroizing::new(String::with_capacity(LONGEST + 2));
    file.take(LONGEST as u64 + 2).read_to_string(&mut text).map_err(|e| fail(e.to_string()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    match line.len() {
        0 => Err(fail("it is empty".into())),
        1..=LONGEST => Ok(Some(Zeroizing::new(line.to_owned()))),
        _ => Err(fail(format!("more than {LONGEST} bytes"))),
    }
}

/// Ask for a passphrase to be, twice. `None`: nobody is there, or none is wanted.
pub(super) fn new(ask: &mut dyn Ask) -> Result<Option<Zeroizing<String>>, SecretsError> {
    loop {
        let prompt = "Passphrase for the new store of secrets (empty: none, the secrets last until a restart): ";
        let Some(first) = ask.hidden(prompt)?.filter(|p| !p.is_empty()) else { return Ok(None) };
        let Some(second) = ask.hidden("The same again: ")? else { return Ok(None) };
        if *first == *second {
            return Ok(Some(first));
        }
        ask.tell("They differ.");
    }
}

/// Wrap a key.
pub(super) fn wrap(id: &Id, key: &Key, passphrase: &str) -> Result<Slot, SecretsError> {
    let (salt, nonce) = (random()?, random()?);
    let wrapping = derive(COST, &salt, passphrase)?;
    let wrapped = seal(&wrapping, &nonce, &**key, id)?;
    let wrapped = wrapped.try_into().map_err(|_| SecretsError::Crypto("the cipher"))?;
    Ok(Slot { cost: COST, salt, nonce, wrapped })
}

/// Unwrap it again; `None`: another passphrase.
pub(super) fn unwrap(id: &Id, slot: &Slot, passphrase: &str) -> Result<Option<Key>, SecretsError> {
    let wrapping = derive(slot.cost, &slot.salt, passphrase)?;
    let key = open(&wrapping, &slot.nonce, &slot.wrapped, id);
    Ok(key.and_then(|key| <[u8; 32]>::try_from(key.as_slice()).ok()).map(Zeroizing::new))
}

fn derive(cost: Cost, salt: &[u8; 16], passphrase: &str) -> Result<Key, SecretsError> {
    let failed = |_| SecretsError::Crypto("Argon2");
    let params = Params::new(cost.memory, cost.passes, cost.lanes, Some(32)).map_err(failed)?;
    let mut key = Zeroizing::new([0u8; 32]);
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(passphrase.as_bytes(), salt, &mut *key).map_err(failed)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_passphrase_unwraps_and_only_for_its_store() {
        let (id, key): (Id, Key) = ([7; 16], Zeroizing::new([9; 32]));
        let slot = wrap(&id, &key, "correct horse").unwrap();
        assert_eq!(unwrap(&id, &slot, "correct horse").unwrap().as_deref(), Some(&[9; 32]));
        assert_eq!(unwrap(&id, &slot, "correct horse ").unwrap(), None);
        assert_eq!(unwrap(&[8; 16], &slot, "correct horse").unwrap(), None);
    }
}
