//! Secrets of components at rest: what `act secret` and `act login` keep, and the broker hands out.
//!
//! **Form.** One file, `$XDG_DATA_HOME/act/secrets.db`, encrypted as a whole with XChaCha20-Poly1305 under a random key;
//! its header is authenticated with it. It is replaced by a rename, so that a reader sees the old or the new one.
//!
//! **The key** is never on disk in the clear. It lies in the kernel's keyring of this user, which lasts until a restart
//! and which no guest can reach (seccomp refuses `keyctl`). Where the user gave a passphrase (`ACT_PASSPHRASE_FILE`, or
//! typed), the header holds the key too, wrapped under the passphrase (Argon2id), and so outlasts a restart.
//!
//! **Limits.** Secrets belong to the *name* in a manifest, so that an upgrade keeps them; whoever grants
//! `act:credentials` to another component of that name grants them to it. Other programs of this user can read the
//! keyring. Memory that held a secret is overwritten where it is ours: not in a JSON parser, and not in the guest.
//!
//! **Tested** here for the format, and through the built program.

mod content;
mod error;
mod file;
mod kernel_key;
mod passphrase;
mod store;
mod unlock;

pub use content::{Content, Value};
pub use error::SecretsError;
pub use passphrase::{Ask, Nobody, VARIABLE as PASSPHRASE_FILE};
pub use store::{Changed, Store};
