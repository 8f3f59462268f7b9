//! Where the time of a start goes: with `ACT_TIMING=1`, one line per phase on standard error.

use std::io::Write as _;
use std::time::Instant;

/// Marks phases; without `ACT_TIMING` it does nothing.
#[derive(Debug)]
pub struct Timing {
    last: Option<Instant>,
}

impl Timing {
    /// Begin.
    pub fn begin() -> Self {
        Self { last: std::env::var_os("ACT_TIMING").map(|_| Instant::now()) }
    }

    /// The phase that has just ended.
    pub fn phase(&mut self, name: &str) {
        if let Some(last) = self.last {
            let micros = last.elapsed().as_micros();
            let _ = writeln!(std::io::stderr(), "timing: {name} {micros} us");
            self.last = Some(Instant::now());
        }
    }

    /// The start phases of the child, as it reported them.
    pub fn child(&self, phases: [u32; 4]) {
        if self.last.is_some() {
            let [read, mapped, linked, locked] = phases;
            let _ = writeln!(
                std::io::stderr(),
                "timing: (child) policy read {read} us, component mapped {mapped} us, linked {linked} us, locked down {locked} us"
            );
        }
    }
}
