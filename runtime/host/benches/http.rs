//! What requests over kept connections cost through the guarded client, beside a client that judges nothing under the
//! same component: `cargo xtask bench http`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "a bench ends by panicking"
)]

mod support;

use rustix::event::{PollFd, PollFlags, poll};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Guarded, Plain, PolicyGate, arguments, cbor, compile, engine, policy, turns};
use tokio::sync::Mutex;

/// Many short ones: few of them are then interrupted by others.
const TURNS: usize = 600;
const REQUESTS: u32 = 20;
/// Sizes of the responses' bodies in bytes.
const SIZES: [usize; 2] = [100, 64 * 1024];

/// Answers every request with a body of `size` bytes, and counts connections. One thread for all of them, so that both
/// clients meet the same.
fn serve(size: usize) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    std::thread::spawn(move || {
        let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + size, b'x');
        let mut streams: Vec<TcpStream> = Vec::new();
        let mut bytes = [0; 4096];
        loop {
            let mut waiting = vec![PollFd::new(&listener, PollFlags::IN)];
            waiting.extend(streams.iter().map(|stream| PollFd::new(stream, PollFlags::IN)));
            poll(&mut waiting, None).unwrap();
            let ready: Vec<bool> = waiting.iter().map(|fd| !fd.revents().is_empty()).collect();
            for (stream, _) in streams.iter_mut().zip(&ready[1..]).filter(|(_, ready)| **ready) {
                // A request without a body comes in one piece.
                if stream.read(&mut bytes).is_ok_and(|n| n > 0) {
                    stream.write_all(&answer).unwrap();
                }
            }
            if ready[0] {
                let (stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                streams.push(stream);
            }
        }
    });
    (port, connections)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (program, component) = arguments();
    let engine = engine();
    let component = compile(&engine, &program, &component);
    println!("{:<8}{:>14}{:>14}{:>8}{:>28}", "body", "guarded", "unguarded", "ratio", "processor time alone, ratio");
    for size in SIZES {
        let (port, connections) = serve(size);
        let gate = PolicyGate::new(policy(&["http=127.0.0.1", "http=*.example.com", "--deny http=10.0.0.0/8"]));
        let guarded = Mutex::new(Guarded::new(&engine, &component, gate, None).await);
        let plain = Mutex::new(Plain::new(&engine, &component, None).await);
        let arguments = cbor(&[("authority", format!("127.0.0.1:{port}").into()), ("count", REQUESTS.into())]);
        let (ours, theirs) = turns(
            TURNS,
            REQUESTS,
            &(size * REQUESTS as usize).to_string(),
            async || guarded.lock().await.call("requests", &arguments).await,
            async || plain.lock().await.call("requests", &arguments).await,
        )
        .await;
        assert_eq!(connections.load(Ordering::SeqCst), 2, "each client keeps one connection");
        let (a, b) = (ours.wall, theirs.wall);
        println!("{size:<8}{a:>11.1} µs{b:>11.1} µs{:>8.3}{:>28.3}", b / a, theirs.processor / ours.processor);
    }
    println!(
        "medians of {TURNS} turns of {REQUESTS} requests one after another; ratio of throughputs: above 1 the guarded one is faster"
    );
}
