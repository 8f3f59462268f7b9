//! Generated from `wit/`.

pub(crate) mod component {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
    wasmtime::component::bindgen!({
        path: "wit",
        world: "act:host/component",
        imports: { default: async | trappable },
        exports: { default: async | store },
        require_store_data_send: true,
    });
}

pub(crate) mod sessions {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
    wasmtime::component::bindgen!({
        path: "wit",
        world: "act:host/sessions",
        exports: { default: async | store },
        with: { "act:core/types": super::component::act::core::types },
        require_store_data_send: true,
    });
}

pub(crate) mod names {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
    wasmtime::component::bindgen!({
        path: "wit",
        world: "act:host/names",
        imports: { default: trappable },
        with: {
            "wasi:io/poll": wasmtime_wasi::p2::bindings::io::poll,
            "wasi:sockets/network.network": wasmtime_wasi::p2::bindings::sockets::network::Network,
            "wasi:sockets/ip-name-lookup.resolve-address-stream": crate::sockets::AddressStream,
        },
        require_store_data_send: true,
    });
}
