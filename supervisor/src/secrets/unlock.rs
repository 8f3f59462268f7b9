//! Where the key of a store comes from, in order: the kernel's keyring, the file that `ACT_PASSPHRASE_FILE` names, a
//! human.

use super::SecretsError;
use super::file::{Header, Key, random};
use super::kernel_key;
use super::passphrase::{self, Ask};
use zeroize::Zeroizing;

/// How long a key stays in the keyring after its passphrase was typed: a working day.
const KEPT: u32 = 12 * 60 * 60;
/// How often a typed passphrase may be wrong.
const TRIES: usize = 3;

/// The key of a store that is there; `path` is for messages.
pub(super) fn existing(header: &Header, path: &str, ask: &mut dyn Ask) -> Result<Key, SecretsError> {
    if let Some(key) = kernel_key::find(&header.id) {
        return Ok(key);
    }
    let Some(slot) = &header.slot else { return Err(SecretsError::KeyGone(path.to_owned())) };
    let wrong = |origin: &str| SecretsError::WrongPassphrase { path: path.to_owned(), origin: origin.to_owned() };
    if let Some(passphrase) = passphrase::from_file()? {
        return passphrase::unwrap(&header.id, slot, &passphrase)?.ok_or_else(|| wrong("in ACT_PASSPHRASE_FILE"));
    }
    for _ in 0..TRIES {
        let Some(passphrase) = ask.hidden("Passphrase of the store of secrets: ")? else {
            return Err(SecretsError::Locked(path.to_owned()));
        };
        if let Some(key) = passphrase::unwrap(&header.id, slot, &passphrase)? {
            // Without a keyring it is asked for again next time.
            let _ = kernel_key::keep(&header.id, &key, Some(KEPT));
            return Ok(key);
        }
        ask.tell("It does not open the store.");
    }
    Err(wrong("that was typed"))
}

/// Header and key of a new store.
pub(super) fn fresh(ask: &mut dyn Ask) -> Result<(Header, Key), SecretsError> {
    let (id, key) = (random()?, Zeroizing::new(random()?));
    if let Some(passphrase) = passphrase::from_file()? {
        return Ok((Header { id, slot: Some(passphrase::wrap(&id, &key, &passphrase)?) }, key));
    }
    let Some(passphrase) = passphrase::new(ask)? else {
        kernel_key::keep(&id, &key, None).map_err(SecretsError::NoKeyring)?;
        return Ok((Header { id, slot: None }, key));
    };
    let slot = passphrase::wrap(&id, &key, &passphrase)?;
    let _ = kernel_key::keep(&id, &key, Some(KEPT));
    Ok((Header { id, slot: Some(slot) }, key))
}
