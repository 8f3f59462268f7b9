//! `wasi:sockets/ip-name-lookup` 0.3: one asynchronous answer.

use super::{HostNames, LookupError, NamesView};
use crate::state::State;
use wasmtime::component::Accessor;
use wasmtime_wasi::p3::bindings::sockets::ip_name_lookup::{ErrorCode, Host, HostWithStore};
use wasmtime_wasi::p3::bindings::sockets::types::IpAddress;

impl Host for NamesView<'_> {}

impl HostWithStore<State> for HostNames {
    async fn resolve_addresses(
        store: &Accessor<State, Self>,
        name: String,
    ) -> wasmtime::Result<Result<Vec<IpAddress>, ErrorCode>> {
        let answer = store.with(|mut view| view.get().names.lookup(name));
        Ok(match answer.await {
            Ok(addresses) => Ok(addresses.into_iter().map(IpAddress::from).collect()),
            Err(LookupError::Denied) => Err(ErrorCode::AccessDenied),
            Err(LookupError::Unresolvable) => Err(ErrorCode::NameUnresolvable),
        })
    }
}
