//! The file: a header in the clear, then everything else encrypted and the header authenticated with it.
//!
//! `magic(16) id(16) slot(1) [memory(4) passes(4) lanes(4) salt(16) nonce(24) wrapped(48)] nonce(24) sealed(…)`, integers
//! big-endian. `sealed` is XChaCha20-Poly1305 with all before its nonce as associated data; a random nonce of 24 bytes
//! never repeats in practice, so one key may seal any number of files.

use super::SecretsError;
use super::content::Content;
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use zeroize::Zeroizing;

/// Largest file in bytes.
pub(super) const MAX_FILE: usize = 4 << 20;
const MAGIC: &[u8; 16] = b"act secrets 1\n\0\0";
const NONCE: usize = 24;
/// A wrapped key: 32 bytes and their authenticator.
pub(super) const WRAPPED: usize = 48;

/// The key of a store.
pub(super) type Key = Zeroizing<[u8; 32]>;
/// Names a store, and its key in the kernel's keyring.
pub(super) type Id = [u8; 16];

/// Cost of a guess at a passphrase (RFC 9106 §3.1): KiB of memory, passes over it, lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) memory: u32,
    pub(super) passes: u32,
    pub(super) lanes: u32,
}

impl Cost {
    /// What a file may demand of us: one that others wrote must not eat the machine.
    fn is_sane(self) -> bool {
        self.memory <= 1 << 20 && self.passes <= 64 && (1..=16).contains(&self.lanes)
    }
}

/// The store's key under a passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) cost: Cost,
    pub(super) salt: [u8; 16],
    pub(super) nonce: [u8; NONCE],
    pub(super) wrapped: [u8; WRAPPED],
}

/// What can be read without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: Id,
    pub(super) slot: Option<Slot>,
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct File {
    pub(super) header: Header,
    nonce: [u8; NONCE],
    sealed: Vec<u8>,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.id);
        out.push(u8::from(self.slot.is_some()));
        if let Some(Slot { cost, salt, nonce, wrapped }) = &self.slot {
            for number in [cost.memory, cost.passes, cost.lanes] {
                out.extend_from_slice(&number.to_be_bytes());
            }
            out.extend_from_slice(salt);
            out.extend_from_slice(nonce);
            out.extend_from_slice(wrapped);
        }
        out
    }
}

impl File {
    /// Take a file apart; `None`: it is none of ours.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let id = take(&mut rest)?;
        let slot = match take::<1>(&mut rest)? {
            [0] => None,
            [1] => {
                let mut number = || take(&mut rest).map(u32::from_be_bytes);
                let cost = Cost { memory: number()?, passes: number()?, lanes: number()? };
                let (salt, nonce, wrapped) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
                Some(Slot { cost, salt, nonce, wrapped }).filter(|slot| slot.cost.is_sane())
            }
            _ => return None,
        };
        let nonce = take(&mut rest)?;
        Some(Self { header: Header { id, slot }, nonce, sealed: rest.to_vec() })
    }

    /// Decrypt; `None`: not under this key, or changed.
    pub(super) fn open(&self, key: &Key) -> Option<Content> {
        let plain = open(key, &self.nonce, &self.sealed, &self.header.encode())?;
        Content::decode(&plain)
    }

    /// The bytes of a file.
    pub(super) fn seal(header: &Header, key: &Key, content: &Content) -> Result<Vec<u8>, SecretsError> {
        let mut out = header.encode();
        let plain = content.encode().ok_or(SecretsError::Crypto("the content"))?;
        let nonce = random()?;
        let sealed = seal(key, &nonce, &plain, &out)?;
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&sealed);
        Ok(out)
    }
}

/// Encrypt, with `with` authenticated beside it.
pub(super) fn seal(key: &Key, nonce: &[u8; NONCE], plain: &[u8], with: &[u8]) -> Result<Vec<u8>, SecretsError> {
    let cipher = XChaCha20Poly1305::new((&**key).into());
    cipher.encrypt(nonce.into(), Payload { msg: plain, aad: with }).map_err(|_| SecretsError::Crypto("the cipher"))
}

/// Decrypt what [`seal`] made of the same key, nonce and `with`.
pub(super) fn open(key: &Key, nonce: &[u8; NONCE], sealed: &[u8], with: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let cipher = XChaCha20Poly1305::new((&**key).into());
    cipher.decrypt(nonce.into(), Payload { msg: sealed, aad: with }).ok().map(Zeroizing::new)
}

/// Random bytes of the kernel.
pub(super) fn random<const N: usize>() -> Result<[u8; N], SecretsError> {
    let mut bytes = [0u8; N];
    // Up to 256 bytes come whole or not at all (getrandom(2)).
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(n) if n == N => Ok(bytes),
        _ => Err(SecretsError::Crypto("random numbers")),
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::super::content::Value;
    use super::*;

    fn example(slot: Option<Slot>) -> (Header, Key, Vec<u8>) {
        let mut content = Content::default();
        content.set("demo", "acme", "token", Value::new(b"\x67hunter2".to_vec()));
        let (header, key) = (Header { id: random().unwrap(), slot }, Zeroizing::new(random().unwrap()));
        let bytes = File::seal(&header, &key, &content).unwrap();
        (header, key, bytes)
    }

    fn slot() -> Slot {
        let cost = Cost { memory: 8, passes: 1, lanes: 1 };
        Slot { cost, salt: [1; 16], nonce: [2; 24], wrapped: [3; WRAPPED] }
    }

    #[test]
    fn nothing_is_in_the_clear_and_the_key_opens_it() {
        for slot in [None, Some(slot())] {
            let (header, key, bytes) = example(slot);
            for secret in [&b"hunter2"[..], b"acme", b"demo"] {
                assert!(!bytes.windows(secret.len()).any(|w| w == secret));
            }
            let file = File::parse(&bytes).unwrap();
            assert_eq!(file.header, header);
            let content = file.open(&key).unwrap();
            assert_eq!(content.fields("demo", "acme").unwrap().next().unwrap().1.cbor(), b"\x67hunter2");
            assert!(file.open(&Zeroizing::new([0; 32])).is_none());
        }
    }

    #[test]
    fn every_changed_byte_is_found() {
        for slot in [None, Some(slot())] {
            let (_, key, bytes) = example(slot);
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(File::parse(&changed).and_then(|file| file.open(&key)).is_none(), "byte {at}");
            }
            for end in 0..bytes.len() {
                assert!(File::parse(&bytes[..end]).and_then(|file| file.open(&key)).is_none(), "cut at {end}");
            }
        }
    }

    #[test]
    fn a_file_cannot_demand_what_it_wants() {
        let greedy = Slot { cost: Cost { memory: u32::MAX, passes: 1, lanes: 1 }, ..slot() };
        let (_, key, bytes) = example(Some(greedy));
        let file = File::parse(&bytes).unwrap();
        assert_eq!(file.header.slot, None);
        assert!(file.open(&key).is_none());
    }
}
