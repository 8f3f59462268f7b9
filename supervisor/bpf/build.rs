//! Chooses the eBPF object to include: the committed one, or the one that `ACT_GUARD_OBJECT` names, which is how
//! `cargo xtask ebpf --check` has a rebuilt object tested.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=ACT_GUARD_OBJECT");
    let object = std::env::var_os("ACT_GUARD_OBJECT").map_or_else(
        || PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../ebpf/guard.bpf.o"),
        PathBuf::from,
    );
    println!("cargo::rerun-if-changed={}", object.display());
    println!("cargo::rustc-env=ACT_GUARD_OBJECT={}", object.display());
}
