//! What operations on files cost in this crate, beside plain wasmtime-wasi under the same component:
//! `cargo xtask bench files`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a bench ends by panicking"
)]

mod support;

use support::{Guarded, Plain, PolicyGate, arguments, cbor, compile, engine, policy, turns};
use tokio::sync::Mutex;

/// Many short ones: few of them are then interrupted by others.
const TURNS: usize = 400;
/// Operation, how many in a turn, and what one of them yields.
const OPERATIONS: [(&str, u32, u32); 4] =
    [("open", 100, 1), ("read", 400, 4096), ("stat", 100, 4096), ("readdir", 20, ENTRIES)];
/// Where the file is, and how many entries its folder has.
const NAME: &str = "a/b/file-0";
const ENTRIES: u32 = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (program, component) = arguments();
    let engine = engine();
    let component = compile(&engine, &program, &component);
    let folder = std::env::temp_dir().canonicalize().unwrap().join(format!("act-bench-{}", std::process::id()));
    let parent = folder.join(NAME).parent().unwrap().to_owned();
    std::fs::create_dir_all(&parent).unwrap();
    for n in 0..ENTRIES {
        std::fs::write(parent.join(format!("file-{n}")), [b'x'; 4096]).unwrap();
    }
    let name = folder.to_str().unwrap();
    let gate = PolicyGate::new(policy(&[&format!("fs={name}/**"), &format!("--deny fs={name}/secret/**")]));
    let guarded = Mutex::new(Guarded::new(&engine, &component, gate, Some(&folder)).await);
    let plain = Mutex::new(Plain::new(&engine, &component, Some(&folder)).await);
    println!("{:<10}{:>14}{:>14}{:>8}{:>28}", "operation", "guarded", "plain", "ratio", "processor time alone, ratio");
    for (what, count, yields) in OPERATIONS {
        let arguments = cbor(&[("what", what.into()), ("name", NAME.into()), ("count", count.into())]);
        let (ours, theirs) = turns(
            TURNS,
            count,
            &(count * yields).to_string(),
            async || guarded.lock().await.call("files", &arguments).await,
            async || plain.lock().await.call("files", &arguments).await,
        )
        .await;
        let (a, b) = (ours.wall, theirs.wall);
        println!("{what:<10}{a:>11.2} µs{b:>11.2} µs{:>8.3}{:>28.3}", a / b, ours.processor / theirs.processor);
    }
    println!(
        "medians of {TURNS} turns; ratio of times: above 1 plain wasmtime-wasi is faster; files are opened in place, none by the broker"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
