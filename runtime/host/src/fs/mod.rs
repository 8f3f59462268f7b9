//! `wasi:filesystem` 0.2 and 0.3 over one implementation.
//!
//! What a path operation does is `act-files`; here is what the two versions of the interface make of it. Reading and
//! writing of what is open is wasmtime-wasi's.

mod fault;
mod judge;
mod listing3;
mod open;
mod p2;
mod p3;
mod preopens;

pub(crate) use judge::{Files, GateJudge};
pub use preopens::PreopenError;
pub(crate) use preopens::{Preopens, open_preopens};

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
}

impl FsView<'_> {
    fn plain(&mut self) -> WasiFilesystemCtxView<'_> {
        WasiFilesystemCtxView { ctx: self.wasi, table: self.table }
    }
}
