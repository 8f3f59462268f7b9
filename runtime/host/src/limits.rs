//! Bounds on what one component instance may hold.

use wasmtime::{ResourceLimiter, Result};

/// Bounds of one instance.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes of linear memory, all memories together.
    pub memory: u64,
    /// Most bytes that one call may return.
    pub output: u64,
    /// Most open handles.
    pub handles: u32,
}

/// Most elements of all tables together; a funcref is 8 bytes.
const TABLE_ELEMENTS: usize = 4 << 20;
/// Core instances, tables and memories of one component with its adapters.
const INSTANCES: usize = 1_000;
const TABLES: usize = 1_000;
const MEMORIES: usize = 100;

/// Sums over all memories and tables of a store; wasmtime's own limits are for each.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory: Sum,
    tables: Sum,
}

impl Limiter {
    pub(crate) fn new(limits: Limits) -> Self {
        let memory = usize::try_from(limits.memory).unwrap_or(usize::MAX);
        Self { memory: Sum::new(memory), tables: Sum::new(TABLE_ELEMENTS) }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(self.memory.grow(current, desired))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> Result<()> {
        self.memory.undo();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(self.tables.grow(current, desired))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> Result<()> {
        self.tables.undo();
        Ok(())
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

#[derive(Debug)]
struct Sum {
    used: usize,
    most: usize,
    last: usize,
}

impl Sum {
    fn new(most: usize) -> Self {
        Self { used: 0, most, last: 0 }
    }

    fn grow(&mut self, current: usize, desired: usize) -> bool {
        let more = desired.saturating_sub(current);
        let fits = self.used.checked_add(more).is_some_and(|sum| sum <= self.most);
        // wasmtime reports a growth that was refused here as failed, too: there is nothing to undo then.
        self.last = if fits { more } else { 0 };
        self.used += self.last;
        fits
    }

    fn undo(&mut self) {
        self.used -= self.last;
        self.last = 0;
    }
}
