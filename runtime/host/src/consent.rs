//! `act:consent`: every semantic action is denied, until consent is built. A real denial, not a missing import.

use crate::bindings::component::act::consent::consent_authority::{ConsentRequest, Decision, Host};
use crate::bindings::component::act::consent::types;
use crate::bindings::component::act::core::types as core;
use crate::state::Imports;

impl core::Host for Imports<'_> {}
impl types::Host for Imports<'_> {}

impl Host for Imports<'_> {}

impl<T: Send> crate::bindings::component::act::consent::consent_authority::HostWithStore<T>
    for crate::state::ActImports
{
    async fn request(
        _: &wasmtime::component::Accessor<T, Self>,
        _: ConsentRequest,
        _: core::Metadata,
    ) -> wasmtime::Result<Decision> {
        Ok(Decision::Deny)
    }
}
