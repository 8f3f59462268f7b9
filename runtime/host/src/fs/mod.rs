//! `wasi:filesystem` 0.2 and 0.3 over one implementation.
//!
//! A path operation resolves first (`act-paths`), judges the real path, then acts on the pinned parent with one
//! component and no following of links. A directory descriptor is an `O_PATH` one: it pins a place and gives no right
//! to list. Its path is read back from the kernel for every operation, so a rename by somebody else is noticed.
//!
//! Only regular files are opened. Files of procfs are not: `/proc/self/mem` is a regular file, too.

mod act;
mod ends;
mod fault;
mod list;
mod listing3;
mod open;
mod p2;
mod p3;
mod preopens;

pub(crate) use act::Files;
pub use preopens::PreopenError;
pub(crate) use preopens::{Preopens, open_preopens};

use std::collections::HashMap;
use std::sync::Arc;
use wasmtime::component::{HasData, ResourceTable};
use wasmtime_wasi::filesystem::{WasiFilesystemCtx, WasiFilesystemCtxView};

/// Marker for [`FsView`].
pub(crate) struct HostFs;

impl HasData for HostFs {
    type Data<'a> = FsView<'a>;
}

/// What the file system hosts see of a store.
pub(crate) struct FsView<'a> {
    pub(crate) wasi: &'a mut WasiFilesystemCtx,
    pub(crate) table: &'a mut ResourceTable,
    pub(crate) files: &'a Arc<Files>,
    pub(crate) preopens: &'a Preopens,
    /// Paths of the directories that 0.2's entry streams list, by resource number.
    pub(crate) listings: &'a mut HashMap<u32, Vec<u8>>,
}

impl FsView<'_> {
    fn plain(&mut self) -> WasiFilesystemCtxView<'_> {
        WasiFilesystemCtxView { ctx: self.wasi, table: self.table }
    }
}
