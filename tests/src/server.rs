//! A server on loopback that knows whether it was reached.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Answers `echo: ` and what it got.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listen on `ip`, on a port that the kernel chooses.
    pub fn start(ip: &str) -> std::io::Result<Self> {
        Self::start_at(ip, 0)
    }

    /// Listen on `ip` and `port`.
    pub fn start_at(ip: &str, port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((ip, port))?;
        let address = listener.local_addr()?;
        let (accepted, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (accepted.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    break;
                }
                count.fetch_add(1, Ordering::SeqCst);
                if let Ok(stream) = stream {
                    let _ = answer(stream);
                }
            }
        });
        Ok(Self { address, accepted, stop, thread: Some(thread) })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections came.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Servers on several addresses with one port.
    pub fn same_port(ips: &[&str]) -> std::io::Result<Vec<Self>> {
        let mut last = Err(std::io::ErrorKind::AddrInUse.into());
        for _ in 0..20 {
            let first = Self::start(ips[0])?;
            let port = first.port();
            last = std::iter::once(Ok(first)).chain(ips[1..].iter().map(|ip| Self::start_at(ip, port))).collect();
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// How many connections came, once `expected` have or some time has passed.
    pub fn settle(&self, expected: usize) -> usize {
        // A connection that was made is accepted by another thread, a little later.
        let until = Instant::now() + Duration::from_secs(if self.accepted() < expected { 2 } else { 0 });
        while self.accepted() < expected && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.accepted()
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut bytes = [0; 4096];
    let n = stream.read(&mut bytes)?;
    // In one write, so that one read of the guest gets it whole.
    stream.write_all(&[b"echo: ", &bytes[..n]].concat())
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the thread.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
