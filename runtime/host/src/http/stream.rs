//! A TCP connection that writes one buffer at a time, and can be looked at while another owner speaks over it.
//!
//! TLS would hand over several buffers at once, for which the seccomp program has no call (`writev`).

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io::Result;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Closed when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Stream(Arc<Mutex<TcpStream>>);

impl Stream {
    pub(super) fn new(stream: TcpStream) -> Self {
        // Only a matter of speed.
        _ = stream.set_nodelay(true);
        Self(Arc::new(Mutex::new(stream)))
    }

    /// Whether the connection is open and no byte waits in it, as the kernel knows it at this moment.
    pub(super) fn is_quiet(&self) -> bool {
        recv(&*self.lock(), &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT)
            .is_err_and(|errno| errno == Errno::AGAIN)
    }

    fn lock(&self) -> MutexGuard<'_, TcpStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(context)
    }
}
