//! The check that wasmtime-wasi makes before every use of an address, in 0.2 and 0.3.

use super::Names;
use crate::gate::Answer;
use act_policy::{Decision, Protocol, Request};
use std::net::SocketAddr;
use std::sync::Arc;
use wasmtime_wasi::sockets::SocketAddrUse;

impl Names {
    pub(crate) fn check(self: &Arc<Self>, addr: SocketAddr, usage: SocketAddrUse) -> Answer<bool> {
        use Protocol::{Tcp, Udp};
        // Before `connect` and `send` wasmtime-wasi asks for the bind that the kernel does by itself.
        let implicit = addr.ip().is_unspecified() && addr.port() == 0;
        match usage {
            SocketAddrUse::TcpBind | SocketAddrUse::UdpBind if implicit => settled(true),
            SocketAddrUse::TcpBind => self.judge(Request::Bind { addr, protocol: Tcp }),
            SocketAddrUse::UdpBind => self.judge(Request::Bind { addr, protocol: Udp }),
            SocketAddrUse::TcpListen => self.judge(Request::Listen { addr }),
            // The socket may listen, so that it may be connected to is decided.
            SocketAddrUse::TcpAccept => settled(true),
            SocketAddrUse::TcpConnect => {
                self.judge(Request::Connect { addr, protocol: Tcp, names: self.names_of(addr) })
            }
            SocketAddrUse::UdpSend => self.send(addr),
            SocketAddrUse::UdpReceive => settled(self.pins().approved(addr)),
        }
    }

    fn judge(&self, request: Request) -> Answer<bool> {
        match self.gate.judge(request.clone()).decision {
            Decision::Allow => settled(true),
            Decision::Ask => self.gate.ask(request),
            Decision::Deny => settled(false),
        }
    }

    /// A peer that was approved once is not judged again for each datagram.
    fn send(self: &Arc<Self>, addr: SocketAddr) -> Answer<bool> {
        if self.pins().approved(addr) {
            return settled(true);
        }
        let names = self.clone();
        let answer = self.judge(Request::Connect { addr, protocol: Protocol::Udp, names: self.names_of(addr) });
        Box::pin(async move {
            let allowed = answer.await;
            if allowed {
                names.pins().approve(addr);
            }
            allowed
        })
    }
}

fn settled(allowed: bool) -> Answer<bool> {
    Box::pin(std::future::ready(allowed))
}
