//! A network of the test's own: a loopback, one name server, and nothing else.

use crate::process;
use crate::world::{require, root};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fs;
use std::net::{Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;
use tempfile::TempDir;

/// The address in `resolv.conf`.
pub const NAME_SERVER: &str = "127.53.53.53";

/// Where a test runs that [`Network::with`] was given. Threads and programs that it starts are in it too; it is gone
/// with the last of them.
#[derive(Debug)]
pub struct Network {
    files: TempDir,
}

/// What the kernel of a network has sent so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams over UDP.
    pub datagrams: u64,
    /// Connections over TCP that were begun.
    pub connections: u64,
}

impl Network {
    /// Run a test in a network of its own; not at all, and said so, where there can be none.
    #[track_caller]
    pub fn with(test: impl FnOnce(&Self) + Send) {
        let entered = std::thread::scope(|scope| {
            // A namespace belongs to a thread, so this one is left as it was.
            let thread = scope.spawn(|| Self::enter().map(|network| test(&network)));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        require(entered);
    }

    fn enter() -> Result<Self, String> {
        root()?;
        let files = tempfile::Builder::new().prefix("act-test-").tempdir().map_err(|e| e.to_string())?;
        let network = Self { files };
        network.resolver("");
        fs::write(network.files.path().join("nsswitch.conf"), "hosts: files dns\n").map_err(|e| e.to_string())?;
        // SAFETY: descriptors stay shared; network and mounts are this thread's from here on.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }.map_err(|e| format!("unshare: {e}"))?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .map_err(|e| format!("private mounts: {e}"))?;
        for name in ["resolv.conf", "nsswitch.conf"] {
            match mount_bind(network.files.path().join(name), format!("/etc/{name}")) {
                // Without it glibc asks the files and then the name server.
                Err(Errno::NOENT) if name == "nsswitch.conf" => {}
                other => other.map_err(|e| format!("mount on /etc/{name}: {e}"))?,
            }
        }
        loopback_up().map_err(|e| format!("loopback: {e}"))?;
        Ok(network)
    }

    /// Write `resolv.conf`, with more lines. One attempt, so that a zone knows which question is which.
    pub fn resolver(&self, more: &str) {
        let text = format!("nameserver {NAME_SERVER}\noptions timeout:3 attempts:1\n{more}");
        fs::write(self.files.path().join("resolv.conf"), text).unwrap();
    }

    /// Give the loopback one more address.
    pub fn add(&self, address: &str) -> Result<(), String> {
        let address: Ipv6Addr = address.parse().map_err(|_| format!("`{address}` is no IPv6 address"))?;
        add(address).map_err(|e| format!("no address {address}: {e}"))?;
        // The kernel puts it to use a little later.
        let usable = || UdpSocket::bind((address, 0)).is_ok();
        process::wait_until(Duration::from_secs(5), "the address to be usable", usable);
        Ok(())
    }

    /// What was sent so far by everything in this network.
    pub fn sent(&self) -> Sent {
        let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        let (both, six) = (read("snmp"), read("snmp6"));
        let six = six.lines().find_map(|line| line.strip_prefix("Udp6OutDatagrams")).map_or(0, number);
        Sent {
            datagrams: counter(&both, "Udp: ", "OutDatagrams") + six,
            connections: counter(&both, "Tcp: ", "ActiveOpens"),
        }
    }
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap()
}

/// A line of names, and a line of numbers below it (proc_net_snmp(5)).
fn counter(text: &str, group: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let (names, numbers) = (lines.next().unwrap(), lines.next().unwrap());
    names.split(' ').zip(numbers.split(' ')).find(|(n, _)| *n == name).map(|(_, value)| number(value)).unwrap()
}

fn loopback_up() -> Result<(), Errno> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: a structure of numbers; all of them may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
    // SAFETY: the structure that this call reads, alive.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) })
}

fn add(address: Ipv6Addr) -> Result<(), Errno> {
    let socket = socket(AddressFamily::INET6, SocketType::DGRAM, None)?;
    // The loopback is the first interface of every network.
    let ifr6_addr = libc::in6_addr { s6_addr: address.octets() };
    let request = libc::in6_ifreq { ifr6_addr, ifr6_prefixlen: 128, ifr6_ifindex: 1 };
    // SAFETY: the structure that this call reads, alive.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR, &raw const request) })
}

fn done(result: i32) -> Result<(), Errno> {
    let failed = || Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL);
    if result < 0 { Err(failed()) } else { Ok(()) }
}
