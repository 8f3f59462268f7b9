//! The directories that a component starts with.

use super::open::directory;
use act_paths::PathsError;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::sync::Arc;
use wasmtime_wasi::filesystem::Dir;

/// Directories with their names inside the component; cloned into every store.
pub(crate) type Preopens = Arc<[(Dir, String)]>;

/// Why the file system could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PreopenError {
    /// No resolver.
    #[error(transparent)]
    Paths(PathsError),
    /// A directory could not be opened.
    #[error("open the directory `{}` that is shown as `{guest}`", String::from_utf8_lossy(.host))]
    Open {
        /// Name inside the component.
        guest: String,
        /// Host path.
        host: Vec<u8>,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
}

/// Open them, links in the host path followed: it was resolved by the supervisor.
pub(crate) fn open_preopens<'a>(
    preopens: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<Preopens, PreopenError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    preopens
        .into_iter()
        .map(|(guest, host)| match open(host, flags, Mode::empty()) {
            Ok(fd) => Ok((directory(fd.into(), true), guest.to_owned())),
            Err(source) => Err(PreopenError::Open { guest: guest.to_owned(), host: host.to_vec(), source }),
        })
        .collect()
}
