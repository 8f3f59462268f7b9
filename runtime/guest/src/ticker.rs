//! The thread that advances the epoch while a call runs, so that a component that spins gives way.

use std::sync::{Arc, Barrier, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wasmtime::Engine;

/// Ticks while somebody holds a [`Busy`]; otherwise the thread sleeps without waking.
pub(crate) struct Ticker {
    busy: Mutex<usize>,
    wake: Condvar,
}

impl Ticker {
    /// Start the thread; returns when it runs, so that nothing of its start is left to do after seccomp.
    pub(crate) fn start(engine: Engine) -> std::io::Result<Arc<Self>> {
        let ticker = Arc::new(Self { busy: Mutex::new(0), wake: Condvar::new() });
        let running = Arc::new(Barrier::new(2));
        let (mine, there) = (ticker.clone(), running.clone());
        std::thread::Builder::new().name("ticker".into()).stack_size(64 * 1024).spawn(move || {
            there.wait();
            loop {
                mine.wait();
                std::thread::sleep(Duration::from_millis(act_engine::TICK_MS));
                engine.increment_epoch();
            }
        })?;
        running.wait();
        Ok(ticker)
    }

    fn count(&self) -> MutexGuard<'_, usize> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let mut count = self.count();
        while *count == 0 {
            count = self.wake.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Tick until the result is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        *self.count() += 1;
        self.wake.notify_one();
        Busy(self.clone())
    }
}

/// Keeps the ticker ticking.
pub(crate) struct Busy(Arc<Ticker>);

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.count() -= 1;
    }
}
