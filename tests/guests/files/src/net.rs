//! Sockets over `wasi:sockets` 0.2.

use crate::error;
use act_sdk::prelude::*;
use std::net::{IpAddr, SocketAddr};
use wasip2::sockets::instance_network::instance_network;
use wasip2::sockets::ip_name_lookup::resolve_addresses;
use wasip2::sockets::network::{
    ErrorCode, IpAddress, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress,
};
use wasip2::sockets::tcp_create_socket::create_tcp_socket;
use wasip2::sockets::udp::OutgoingDatagram;
use wasip2::sockets::udp_create_socket::create_udp_socket;

fn address(text: &str) -> ActResult<(IpAddressFamily, IpSocketAddress)> {
    let parsed: SocketAddr =
        text.parse().map_err(|_| ActError::invalid_args(format!("`{text}` is not an address and port")))?;
    let port = parsed.port();
    Ok(match parsed.ip() {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            (IpAddressFamily::Ipv4, IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address: (a, b, c, d) }))
        }
        IpAddr::V6(ip) => {
            let [a, b, c, d, e, f, g, h] = ip.segments();
            let address = (a, b, c, d, e, f, g, h);
            let address = Ipv6SocketAddress { port, flow_info: 0, address, scope_id: 0 };
            (IpAddressFamily::Ipv6, IpSocketAddress::Ipv6(address))
        }
    })
}

fn show(address: IpSocketAddress) -> String {
    match address {
        IpSocketAddress::Ipv4(a) => format!("{}:{}", show_ip(IpAddress::Ipv4(a.address)), a.port),
        IpSocketAddress::Ipv6(a) => format!("[{}]:{}", show_ip(IpAddress::Ipv6(a.address)), a.port),
    }
}

fn show_ip(address: IpAddress) -> String {
    match address {
        IpAddress::Ipv4((a, b, c, d)) => IpAddr::from([a, b, c, d]).to_string(),
        IpAddress::Ipv6((a, b, c, d, e, f, g, h)) => IpAddr::from([a, b, c, d, e, f, g, h]).to_string(),
    }
}

pub(crate) fn tcp(to: &str, send: &str) -> ActResult<String> {
    let (family, to) = address(to)?;
    let socket = create_tcp_socket(family).map_err(error)?;
    socket.start_connect(&instance_network(), to).map_err(error)?;
    let (input, output) = loop {
        match socket.finish_connect() {
            Err(ErrorCode::WouldBlock) => socket.subscribe().block(),
            other => break other.map_err(error)?,
        }
    };
    output.blocking_write_and_flush(send.as_bytes()).map_err(error)?;
    let answer = input.blocking_read(64 * 1024).map_err(error)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

pub(crate) fn udp(to: &str, send: &str) -> ActResult<String> {
    let (family, to) = address(to)?;
    let unspecified = if matches!(family, IpAddressFamily::Ipv4) { "0.0.0.0:0" } else { "[::]:0" };
    let socket = create_udp_socket(family).map_err(error)?;
    socket.start_bind(&instance_network(), address(unspecified)?.1).map_err(error)?;
    socket.finish_bind().map_err(error)?;
    let (input, output) = socket.stream(None).map_err(error)?;
    while output.check_send().map_err(error)? == 0 {
        output.subscribe().block();
    }
    output.send(&[OutgoingDatagram { data: send.as_bytes().to_vec(), remote_address: Some(to) }]).map_err(error)?;
    let answer = loop {
        match input.receive(1).map_err(error)?.into_iter().next() {
            Some(datagram) => break datagram.data,
            None => input.subscribe().block(),
        }
    };
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

pub(crate) fn listen(on: &str) -> ActResult<String> {
    let (family, on) = address(on)?;
    let socket = create_tcp_socket(family).map_err(error)?;
    socket.start_bind(&instance_network(), on).map_err(error)?;
    socket.finish_bind().map_err(error)?;
    socket.start_listen().map_err(error)?;
    socket.finish_listen().map_err(error)?;
    Ok(show(socket.local_address().map_err(error)?))
}

pub(crate) fn resolve(name: &str) -> ActResult<String> {
    let found = resolve_addresses(&instance_network(), name).map_err(error)?;
    let mut lines = Vec::new();
    loop {
        match found.resolve_next_address() {
            Ok(Some(ip)) => lines.push(show_ip(ip)),
            Ok(None) => return Ok(lines.join("\n")),
            Err(ErrorCode::WouldBlock) => found.subscribe().block(),
            Err(other) => return Err(error(other)),
        }
    }
}
