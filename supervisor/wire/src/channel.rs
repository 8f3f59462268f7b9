//! One end of the socket pair: whole messages in and out, over bounded packets.

use crate::message::VERSION;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Most bytes of one packet, below the smallest default socket buffer of Linux (212,992 bytes since 2.6).
pub const PACKET: usize = 64 * 1024;
/// Descriptors that one message may carry.
const MAX_DESCRIPTORS: usize = 4;
const MORE: u8 = 1;
const LAST: u8 = 0;

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side is gone.
    #[error("the other side closed the channel")]
    Closed,
    /// A system call failed.
    #[error("{call} on the channel")]
    System {
        /// The call.
        call: &'static str,
        /// Its error.
        #[source]
        source: std::io::Error,
    },
    /// The other side sent more than the bound.
    #[error("a message of more than {limit} bytes")]
    TooLarge {
        /// The bound in bytes.
        limit: usize,
    },
    /// The bytes are not a message of this version.
    #[error("not a message of this version: {what}")]
    Malformed {
        /// What is wrong.
        what: String,
    },
    /// Nothing came in time.
    #[error("no message in time")]
    TimedOut,
}

fn system(call: &'static str) -> impl Fn(Errno) -> ChannelError {
    move |errno| match errno {
        Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => ChannelError::Closed,
        _ => ChannelError::System { call, source: errno.into() },
    }
}

/// One end of a `SOCK_SEQPACKET` pair.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    /// Bytes of a message whose last packet has not come yet.
    partial: Vec<u8>,
    /// Descriptors that came with the packets of `partial`.
    descriptors: Vec<OwnedFd>,
    limit: usize,
    /// Where packets are received into; made at the first one.
    buffer: Vec<u8>,
    /// How long a message may wait for room; `None`: for ever.
    patience: Option<Duration>,
}

impl Channel {
    /// Wrap a connected `SOCK_SEQPACKET` socket; messages of more than `limit` bytes are refused when received.
    pub fn new(socket: OwnedFd, limit: usize) -> Self {
        Self { socket, partial: Vec::new(), descriptors: Vec::new(), limit, buffer: Vec::new(), patience: None }
    }

    /// Give up sending where the other side reads nothing for so long.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Send a message, waiting for room in the socket buffer.
    pub fn send<T: Serialize>(&self, message: &T) -> Result<(), ChannelError> {
        self.send_with(message, &[])
    }

    /// Send a message with descriptors attached to its first packet.
    pub fn send_with<T: Serialize>(&self, message: &T, fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        let bytes =
            postcard::to_extend(message, vec![VERSION]).map_err(|e| ChannelError::Malformed { what: e.to_string() })?;
        // It may hold a secret.
        let bytes = Zeroizing::new(bytes);
        let mut packets = bytes.chunks(PACKET - 1).peekable();
        let mut fds = fds;
        let until = self.patience.map(|patience| Instant::now() + patience);
        while let Some(packet) = packets.next() {
            let mark = [if packets.peek().is_some() { MORE } else { LAST }];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(ChannelError::Malformed { what: format!("more than {MAX_DESCRIPTORS} descriptors") });
            }
            let parts = [IoSlice::new(&mark), IoSlice::new(packet)];
            loop {
                match sendmsg(&self.socket, &parts, &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                    Ok(_) => break,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => self.wait(PollFlags::OUT, until)?,
                    Err(e) => return Err(system("sendmsg")(e)),
                }
            }
            fds = &[];
        }
        Ok(())
    }

    /// Receive the next whole message if its packets are there; `None` when the socket has nothing more just now.
    pub fn try_receive<T: DeserializeOwned>(&mut self) -> Result<Option<(T, Vec<OwnedFd>)>, ChannelError> {
        self.take(RecvFlags::DONTWAIT)
    }

    /// Receive the next whole message, however long that takes: for a side that has nothing else to do.
    pub fn receive_blocking<T: DeserializeOwned>(&mut self) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        loop {
            if let Some(message) = self.take(RecvFlags::empty())? {
                return Ok(message);
            }
        }
    }

    fn take<T: DeserializeOwned>(&mut self, wait: RecvFlags) -> Result<Option<(T, Vec<OwnedFd>)>, ChannelError> {
        self.buffer.resize(PACKET, 0);
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = wait | RecvFlags::CMSG_CLOEXEC;
            let got = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut self.buffer)], &mut ancillary, flags) {
                Ok(got) => got,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(system("recvmsg")(e)),
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    self.descriptors.extend(fds);
                }
            }
            if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
                || self.descriptors.len() > MAX_DESCRIPTORS
            {
                return Err(ChannelError::Malformed { what: "truncated packet".into() });
            }
            let Some((mark, body)) = self.buffer.get(..got.bytes).and_then(<[u8]>::split_first) else {
                return Err(ChannelError::Closed);
            };
            if self.partial.len() + body.len() > self.limit {
                return Err(ChannelError::TooLarge { limit: self.limit });
            }
            self.partial.extend_from_slice(body);
            match *mark {
                // Else a message of empty packets would never end.
                MORE if body.len() == PACKET - 1 => {}
                LAST => {
                    let bytes = std::mem::take(&mut self.partial);
                    let fds = std::mem::take(&mut self.descriptors);
                    return decode(&bytes).map(|message| Some((message, fds)));
                }
                other => return Err(ChannelError::Malformed { what: format!("packet mark {other}") }),
            }
        }
    }

    /// Receive the next whole message, waiting until `deadline`.
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        loop {
            if let Some(message) = self.try_receive()? {
                return Ok(message);
            }
            self.wait(PollFlags::IN, deadline)?;
        }
    }

    fn wait(&self, events: PollFlags, deadline: Option<Instant>) -> Result<(), ChannelError> {
        let mut fds = [PollFd::new(&self.socket, events)];
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(ChannelError::TimedOut);
            }
            let timeout = left.and_then(|d| Timespec::try_from(d).ok());
            match poll(&mut fds, timeout.as_ref()) {
                Ok(0) => return Err(ChannelError::TimedOut),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(system("poll")(e)),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ChannelError> {
    let malformed = |what: String| ChannelError::Malformed { what };
    match bytes.split_first() {
        Some((&VERSION, body)) => match postcard::take_from_bytes(body) {
            Ok((message, [])) => Ok(message),
            Ok((_, rest)) => Err(malformed(format!("{} bytes after the message", rest.len()))),
            Err(e) => Err(malformed(e.to_string())),
        },
        Some((version, _)) => Err(malformed(format!("version {version}, this program speaks {VERSION}"))),
        None => Err(malformed("empty".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ToGuest, ToSupervisor};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair(limit: usize) -> (Channel, Channel) {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Channel::new(a, limit), Channel::new(b, limit))
    }

    #[test]
    fn a_message_larger_than_the_socket_buffer_arrives_whole() {
        let (a, mut b) = pair(8 << 20);
        let arguments = vec![7u8; 4 << 20];
        let sent = std::thread::spawn(move || {
            a.send(&ToGuest::CallTool { call: 1, name: "t".into(), arguments, metadata: vec![] }).unwrap();
            a
        });
        let (message, fds) = b.receive::<ToGuest>(Some(Instant::now() + Duration::from_secs(20))).unwrap();
        let ToGuest::CallTool { arguments, .. } = message else { unreachable!("{message:?}") };
        assert_eq!((arguments.len(), fds.len()), (4 << 20, 0));
        drop(sent.join().unwrap());
        assert!(matches!(b.receive::<ToGuest>(None), Err(ChannelError::Closed)));
    }

    #[test]
    fn a_side_that_reads_nothing_is_given_up() {
        let (a, _b) = pair(8 << 20);
        let a = a.with_patience(Duration::from_millis(50));
        let big = ToGuest::CallTool { call: 1, name: "t".into(), arguments: vec![7; 4 << 20], metadata: vec![] };
        assert!(matches!(a.send(&big), Err(ChannelError::TimedOut)));
    }

    #[test]
    fn a_message_over_the_bound_is_refused() {
        let (a, mut b) = pair(1000);
        a.send(&ToGuest::CallTool { call: 1, name: "n".repeat(2000), arguments: vec![], metadata: vec![] }).unwrap();
        assert!(matches!(b.receive::<ToGuest>(None), Err(ChannelError::TooLarge { limit: 1000 })));
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        for bytes in [&[][..], &[LAST], &[LAST, 9, 9], &[LAST, VERSION, 200, 1], &[7, VERSION]] {
            let (a, mut b) = pair(1000);
            rustix::net::send(&a.socket, bytes, SendFlags::empty()).unwrap();
            let got = b.receive::<ToSupervisor>(Some(Instant::now() + Duration::from_secs(1)));
            assert!(matches!(got, Err(ChannelError::Malformed { .. } | ChannelError::Closed)), "{bytes:?}: {got:?}");
        }
    }

    #[test]
    fn a_descriptor_travels_with_its_message() {
        let (a, mut b) = pair(1000);
        let (r, w) = rustix::pipe::pipe().unwrap();
        a.send_with(&ToGuest::Go, &[w.as_fd()]).unwrap();
        drop(w);
        let (_, fds) = b.receive::<ToGuest>(None).unwrap();
        rustix::io::write(&fds[0], b"x").unwrap();
        assert_eq!(rustix::io::read(&r, &mut [0u8; 2]), Ok(1));
    }
}
