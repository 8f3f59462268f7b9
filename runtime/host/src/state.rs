//! What a store holds, and the narrow views of it that the hosts get.

use crate::fs::{Files, FsView, GateJudge, Preopens};
use crate::gate::Gate;
use crate::http::{Client, HttpHooks};
use crate::limits::{Limiter, Limits};
use crate::sockets::{Names, NamesView};
use act_files::{Direct, Remote};
use std::collections::HashSet;
use std::sync::Arc;
use wasmtime::component::{HasData, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

/// Most bytes that one call of `wasi:random` may ask for.
const RANDOM_BYTES: u64 = 1 << 20;

/// What must be opened before the process locks itself down; every store of the process is made from it.
pub struct Prepared {
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) files: Arc<Files>,
    pub(crate) preopens: Preopens,
    pub(crate) http: Arc<Client>,
    /// What was resolved in this run: it outlives an instance.
    pub(crate) names: Arc<Names>,
    pub(crate) limits: Limits,
}

impl Prepared {
    /// Open the directories that the component is shown: pairs of guest name and host path. Operations on files outside
    /// the subtrees beside `remote` are left to it.
    pub fn new<'a>(
        gate: Arc<dyn Gate>,
        preopens: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        remote: Option<(Box<dyn Remote>, Vec<Direct>)>,
        limits: Limits,
    ) -> Result<Self, crate::PreopenError> {
        let files = Files::new(GateJudge(gate.clone())).map_err(crate::PreopenError::Paths)?;
        let files = Arc::new(match remote {
            Some((remote, direct)) => files.with_remote(remote, direct),
            None => files,
        });
        let preopens = crate::fs::open_preopens(preopens)?;
        let names = Arc::new(Names::new(gate.clone()));
        let http = Arc::new(Client::new(gate.clone(), names.clone()));
        Ok(Self { gate, files, preopens, http, names, limits })
    }
}

/// The state of one store.
pub struct State {
    pub(crate) table: ResourceTable,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    hooks: HttpHooks,
    files: Arc<Files>,
    preopens: Preopens,
    names: Arc<Names>,
    gate: Arc<dyn Gate>,
    /// Sessions that the component has opened and not closed.
    pub(crate) sessions: HashSet<String>,
    pub(crate) limiter: Limiter,
    pub(crate) limits: Limits,
}

impl State {
    pub(crate) fn new(prepared: &Prepared) -> Self {
        let Prepared { gate, files, preopens, http, names, limits } = prepared;
        let check = names.clone();
        let mut wasi = WasiCtx::builder();
        wasi.allow_blocking_current_thread(true)
            .max_random_size(RANDOM_BYTES)
            .allow_tcp(true)
            .allow_udp(true)
            .allow_ip_name_lookup(false)
            .socket_addr_check(move |address, usage| check.check(address, usage));
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles as usize);
        Self {
            table,
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            hooks: HttpHooks::new(http.clone()),
            files: files.clone(),
            preopens: preopens.clone(),
            names: names.clone(),
            gate: gate.clone(),
            sessions: HashSet::new(),
            limiter: Limiter::new(*limits),
            limits: *limits,
        }
    }

    pub(crate) fn fs(&mut self) -> FsView<'_> {
        FsView { wasi: self.wasi.filesystem(), table: &mut self.table, files: &self.files, preopens: &self.preopens }
    }

    pub(crate) fn names(&mut self) -> NamesView<'_> {
        NamesView { table: &mut self.table, names: &self.names }
    }

    pub(crate) fn imports(&mut self) -> Imports<'_> {
        Imports { gate: &self.gate, sessions: &self.sessions }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.hooks, table: &mut self.table, ctx: &mut self.http }
    }
}

/// What the ACT imports see of a store.
pub(crate) struct Imports<'a> {
    pub(crate) gate: &'a Arc<dyn Gate>,
    pub(crate) sessions: &'a HashSet<String>,
}

/// Marker for [`Imports`].
pub(crate) struct ActImports;

impl HasData for ActImports {
    type Data<'a> = Imports<'a>;
}
