//! A TCP server on the loopback interface that sends back what it gets, and counts.

use anyhow::Result;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(super) struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Listens on a free port; the thread ends with the process.
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::SeqCst);
                // A client that goes away is no reason to stop.
                let _ = answer(connection);
            }
        });
        Ok(Self { address, accepted })
    }

    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    /// The number of connections so far.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

fn answer(mut connection: TcpStream) -> std::io::Result<()> {
    connection.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut buffer = [0; 4096];
    let size = connection.read(&mut buffer)?;
    connection.write_all(buffer.get(..size).unwrap_or_default())
}
