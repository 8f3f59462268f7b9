//! Everything that a component may import.

use crate::bindings;
use crate::bindings::component::act::{consent, credentials};
use crate::fs::HostFs;
use crate::sockets::HostNames;
use crate::state::{ActImports, State};
use wasmtime::Engine;
use wasmtime::component::Linker;

/// A linker with WASI 0.2 and 0.3 and the ACT imports.
///
/// INVARIANT: everything that reaches a path, a name or an address is shadowed by, or hooked into, this crate.
pub fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    wasmtime_wasi::p3::add_to_linker(&mut linker)?;
    wasmtime_wasi_http::p3::add_to_linker(&mut linker)?;

    linker.allow_shadowing(true);
    {
        use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
        types::add_to_linker::<State, HostFs>(&mut linker, State::fs)?;
        preopens::add_to_linker::<State, HostFs>(&mut linker, State::fs)?;
    }
    {
        use wasmtime_wasi::p3::bindings::filesystem::{preopens, types};
        types::add_to_linker::<State, HostFs>(&mut linker, State::fs)?;
        preopens::add_to_linker::<State, HostFs>(&mut linker, State::fs)?;
    }
    bindings::names::wasi::sockets::ip_name_lookup::add_to_linker::<State, HostNames>(&mut linker, State::names)?;
    wasmtime_wasi::p3::bindings::sockets::ip_name_lookup::add_to_linker::<State, HostNames>(&mut linker, State::names)?;
    linker.allow_shadowing(false);

    consent::consent_authority::add_to_linker::<State, ActImports>(&mut linker, State::imports)?;
    credentials::store::add_to_linker::<State, ActImports>(&mut linker, State::imports)?;
    Ok(linker)
}
