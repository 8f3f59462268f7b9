//! What the benches share: one component, in a store of this crate under a policy, and in a store of plain
//! wasmtime-wasi, both in this process and on one thread.
//!
//! Layer 1 alone is measured: no seccomp, Landlock or eBPF. Its records are encoded and sent as the child does it, to a
//! thread that reads and drops them.

mod gate;
mod guarded;
mod plain;

pub use gate::{PolicyGate, policy};
pub use guarded::Guarded;
pub use plain::Plain;

use rustix::time::{ClockId, clock_gettime};
use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wasmtime::component::Component;
use wasmtime::{Config, Engine};

/// The settings of `act-engine`, which `act-compile` has; wasmtime refuses its code under others.
pub fn engine() -> Engine {
    let mut config = Config::new();
    config.wasm_component_model(true).wasm_component_model_async(true).epoch_interruption(true);
    Engine::new(&config).unwrap()
}

/// The arguments: `act-compile` and a component.
pub fn arguments() -> (PathBuf, PathBuf) {
    let arguments: Vec<_> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [program, component] = arguments.try_into().expect("two arguments: ACT-COMPILE COMPONENT");
    (program, component)
}

pub fn compile(engine: &Engine, program: &Path, component: &Path) -> Component {
    let bytes = std::fs::read(component).unwrap();
    let mut command = Command::new(program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{}: {}", program.display(), output.status);
    // SAFETY: these bytes have to be an unmodified output of `Engine::precompile_component`: they come from the pipe of
    // the project's own compiler, started by this function with a component that the person who runs the bench names,
    // and nobody else holds them.
    unsafe { Component::deserialize(engine, output.stdout) }.unwrap()
}

/// A tool's arguments, as CBOR.
pub fn cbor(arguments: &[(&str, ciborium::Value)]) -> Vec<u8> {
    let map = arguments.iter().map(|(name, value)| (ciborium::Value::from(*name), value.clone())).collect();
    let mut bytes = Vec::new();
    ciborium::into_writer(&ciborium::Value::Map(map), &mut bytes).unwrap();
    bytes
}

/// What a turn took: by the clock, and of this thread's processor time, which other processes disturb less.
#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: f64,
    pub processor: f64,
}

/// In microseconds.
#[expect(clippy::cast_precision_loss, reason = "the machine is not up for 200 years")]
fn now() -> Cost {
    let read = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    Cost { wall: read(ClockId::Monotonic), processor: read(ClockId::ThreadCPUTime) }
}

fn median(values: impl Iterator<Item = f64>, each: u32) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2] / f64::from(each)
}

/// Take turns, so that what else the machine does hits both alike. Each turn makes `each` operations and has to answer
/// `expected`. The medians for one operation.
pub async fn turns<A, B>(
    count: usize,
    each: u32,
    expected: &str,
    mut first: impl FnMut() -> A,
    mut second: impl FnMut() -> B,
) -> (Cost, Cost)
where
    A: Future<Output = String>,
    B: Future<Output = String>,
{
    const WARM_UP: usize = 3;
    let mut costs = (Vec::new(), Vec::new());
    for turn in 0..count + WARM_UP {
        let start = now();
        assert_eq!(first().await, expected);
        let middle = now();
        assert_eq!(second().await, expected);
        let end = now();
        if turn >= WARM_UP {
            let took = |a: Cost, b: Cost| Cost { wall: b.wall - a.wall, processor: b.processor - a.processor };
            costs.0.push(took(start, middle));
            costs.1.push(took(middle, end));
        }
    }
    let sum = |costs: &[Cost]| Cost {
        wall: median(costs.iter().map(|cost| cost.wall), each),
        processor: median(costs.iter().map(|cost| cost.processor), each),
    };
    (sum(&costs.0), sum(&costs.1))
}
