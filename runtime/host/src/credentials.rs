//! `act:credentials`: an empty store that denies, until credentials are built.

use crate::bindings::component::act::credentials::store::{Host, HostWithStore};
use crate::bindings::component::act::credentials::types::{self, Secret, SecretError, SecretInfo, SecretRequest};
use crate::state::{ActImports, Imports};
use wasmtime::component::Accessor;

impl types::Host for Imports<'_> {}
impl Host for Imports<'_> {}

impl<T: Send> HostWithStore<T> for ActImports {
    async fn list_secrets(
        _: &Accessor<T, Self>,
        _: Option<String>,
    ) -> wasmtime::Result<Result<Vec<SecretInfo>, SecretError>> {
        Ok(Ok(Vec::new()))
    }

    async fn get_secret(
        _: &Accessor<T, Self>,
        _: String,
        _: SecretRequest,
    ) -> wasmtime::Result<Result<Secret, SecretError>> {
        Ok(Err(SecretError::Denied))
    }
}
