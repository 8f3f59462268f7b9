//! The one wasmtime configuration of this project.
//!
//! **Purpose.** `act-compile` makes a `.cwasm` and `act-guest` maps it. Wasmtime refuses a `.cwasm` of another version
//! or of other settings, so both programs build their engine here. [`settings`] names everything that the compiled
//! code depends on and is part of the key of the compile cache.
//!
//! **Features.** Without one the crate is only [`settings`], for the supervisor, which links no wasmtime. `compiler`
//! adds Cranelift (compile worker only), `runtime` adds running (guest child only): no program has both, so a guest that
//! is taken over has no code generator in its process.
//!
//! **Limits.** x86-64 and AArch64 Linux. Linear memories use wasmtime's default reservation (4 GiB of address space and
//! guard pages), so `RLIMIT_AS` cannot bound them; `RLIMIT_DATA` and the limiter of `act-host` do.
//!
//! **Threat model.** Deserializing runs native code from the file: the caller answers for where the bytes came from.
//!
//! **Tested** by the built programs: every run of a component maps what the worker compiled.

#[cfg(any(feature = "compiler", feature = "runtime"))]
pub use with_wasmtime::{config, engine};

/// Version of wasmtime, as pinned in the workspace manifest.
pub const WASMTIME: &str = "48.0.8";

/// How often the guest child advances the epoch, in milliseconds: a component that spins gives way this often.
pub const TICK_MS: u64 = 10;

/// Everything that compiled code depends on besides the component: part of a compile cache key.
pub fn settings() -> &'static str {
    concat!("wasmtime=48.0.8 target=", env_target!(), " component-model async epoch opt=speed v1")
}

#[cfg(any(feature = "compiler", feature = "runtime"))]
mod with_wasmtime {
    use wasmtime::{Config, Engine};

    /// The configuration of both programs.
    pub fn config() -> Config {
        let mut config = Config::new();
        config.wasm_component_model(true);
        config.wasm_component_model_async(true);
        config.epoch_interruption(true);
        #[cfg(feature = "compiler")]
        config.parallel_compilation(true);
        config
    }

    /// An engine of that configuration.
    pub fn engine() -> wasmtime::Result<Engine> {
        Engine::new(&config())
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! env_target {
    () => {
        "x86_64-linux"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! env_target {
    () => {
        "aarch64-linux"
    };
}
use env_target;
