//! `wasi:sockets/ip-name-lookup` 0.2: a stream of addresses that becomes ready.

use super::{LookupError, NamesView};
use crate::bindings::names::wasi::sockets::ip_name_lookup::{Host, HostResolveAddressStream};
use crate::bindings::names::wasi::sockets::network::{self, ErrorCode, IpAddress, Network};
use crate::gate::Answer;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::vec;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

/// Addresses of one lookup. `pub` for the generated code, in a private module.
#[expect(unreachable_pub, reason = "generated code re-exports it")]
pub enum AddressStream {
    Waiting(Answer<Result<Vec<IpAddr>, LookupError>>),
    Ready(vec::IntoIter<IpAddr>),
    Failed(LookupError),
}

impl AddressStream {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Self::Waiting(answer) = self {
            *self = match answer.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(addresses)) => Self::Ready(addresses.into_iter()),
                Poll::Ready(Err(error)) => Self::Failed(error),
            };
        }
        Poll::Ready(())
    }
}

impl Pollable for AddressStream {
    // The trait is declared with `async_trait`; this is what that macro makes of `async fn ready(&mut self)`.
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::poll_fn(|context| self.poll(context)))
    }
}

impl Host for NamesView<'_> {
    fn resolve_addresses(
        &mut self,
        network: Resource<Network>,
        name: String,
    ) -> wasmtime::Result<Result<Resource<AddressStream>, ErrorCode>> {
        self.table.get(&network)?;
        let stream = AddressStream::Waiting(self.names.lookup(name));
        Ok(Ok(self.table.push(stream)?))
    }
}

impl HostResolveAddressStream for NamesView<'_> {
    fn resolve_next_address(
        &mut self,
        stream: Resource<AddressStream>,
    ) -> wasmtime::Result<Result<Option<IpAddress>, ErrorCode>> {
        let stream = self.table.get_mut(&stream)?;
        Ok(match (stream.poll(&mut Context::from_waker(Waker::noop())), stream) {
            (Poll::Ready(()), AddressStream::Ready(addresses)) => Ok(addresses.next().map(address)),
            (Poll::Ready(()), AddressStream::Failed(LookupError::Denied)) => Err(ErrorCode::AccessDenied),
            (Poll::Ready(()), AddressStream::Failed(LookupError::Unresolvable)) => Err(ErrorCode::NameUnresolvable),
            (Poll::Pending, _) | (_, AddressStream::Waiting(_)) => Err(ErrorCode::WouldBlock),
        })
    }

    fn subscribe(&mut self, stream: Resource<AddressStream>) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(self.table, stream)
    }

    fn drop(&mut self, stream: Resource<AddressStream>) -> wasmtime::Result<()> {
        self.table.delete(stream)?;
        Ok(())
    }
}

impl network::Host for NamesView<'_> {}

impl network::HostNetwork for NamesView<'_> {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        self.table.delete(network)?;
        Ok(())
    }
}

fn address(address: IpAddr) -> IpAddress {
    match address {
        IpAddr::V4(address) => IpAddress::Ipv4(address.octets().into()),
        IpAddr::V6(address) => IpAddress::Ipv6(address.segments().into()),
    }
}
