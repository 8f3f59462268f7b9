//! What can be wrong with the store. No message holds anything of its content.

use std::io;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// There is no place for it.
    #[error("no place for secrets: neither XDG_DATA_HOME nor HOME is set")]
    NoPlace,
    /// Its folder cannot be used.
    #[error("the folder of secrets: {0}")]
    Folder(String),
    /// A step on the file failed.
    #[error("{path}: {step}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What was done.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Others could read or change it.
    #[error("{0}: others can read or change it, or it is no regular file of this user (chmod 600, or move it away)")]
    NotPrivate(String),
    /// Something else lies at its place.
    #[error("{0} is no store of secrets of this version of act: move it away to begin a new one; it was left as it is")]
    Foreign(String),
    /// It does not fit its key.
    #[error(
        "{0} is damaged or was changed by another program: restore it, or move it away to begin a new one; it was left as it is"
    )]
    Damaged(String),
    /// Too large to be ours.
    #[error("{path}: more than {limit} bytes of secrets")]
    TooLarge {
        /// The file.
        path: String,
        /// The bound in bytes.
        limit: usize,
    },
    /// The kernel has lost the key, as it does at every restart.
    #[error(
        "the key of {0} is no longer in the kernel's keyring, where it lasts until a restart, and there is no passphrase: move the file away and set the secrets again, with ACT_PASSPHRASE_FILE to keep them longer"
    )]
    KeyGone(String),
    /// Nobody is there to give the passphrase.
    #[error(
        "{0} is locked: name a file that holds its passphrase in ACT_PASSPHRASE_FILE, or run `act secret list` at a terminal to unlock it"
    )]
    Locked(String),
    /// The passphrase is not the one.
    #[error("{path}: the passphrase {origin} does not open it")]
    WrongPassphrase {
        /// The store.
        path: String,
        /// Where the passphrase came from.
        origin: String,
    },
    /// The passphrase cannot be read.
    #[error("ACT_PASSPHRASE_FILE: {0}")]
    PassphraseFile(String),
    /// The keyring does not work here.
    #[error("the kernel's keyring cannot be used ({0}): name a file with a passphrase in ACT_PASSPHRASE_FILE")]
    NoKeyring(io::Error),
    /// The terminal failed while a passphrase was typed.
    #[error("the terminal: {0}")]
    Terminal(io::Error),
    /// A signal asked the program to end.
    #[error("interrupted")]
    Interrupted,
    /// The cryptography failed, which valid parameters never let it.
    #[error("{0}: encryption failed")]
    Crypto(&'static str),
}

impl From<SecretsError> for crate::exit::Failure {
    fn from(error: SecretsError) -> Self {
        match error {
            SecretsError::Interrupted => Self::interrupted(),
            SecretsError::NoPlace | SecretsError::PassphraseFile(_) => Self::usage(error),
            other => Self::failed(other),
        }
    }
}
