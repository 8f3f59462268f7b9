//! Sockets over `wasi:sockets` 0.3.

use crate::error;
use std::net::{IpAddr, SocketAddr};
use wasip3::sockets::ip_name_lookup::resolve_addresses;
use wasip3::sockets::types::{
    IpAddress, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress, TcpSocket,
};

fn address(text: &str) -> Result<(IpAddressFamily, IpSocketAddress), String> {
    let parsed: SocketAddr = text.parse().map_err(|_| format!("`{text}` is not an address and port"))?;
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

pub(crate) async fn tcp(to: &str, send: &str) -> Result<String, String> {
    let (family, to) = address(to)?;
    let socket = TcpSocket::create(family).map_err(error)?;
    socket.connect(to).await.map_err(error)?;
    let (mut sender, stream) = wasip3::wit_stream::new();
    let sent = socket.send(stream);
    let (mut answer, _end) = socket.receive();
    let exchange = async move {
        sender.write_all(send.as_bytes().to_vec()).await;
        let (_, bytes) = answer.read(Vec::with_capacity(64 * 1024)).await;
        bytes
    };
    let (bytes, outcome) = futures::join!(exchange, sent.into_future());
    outcome.map_err(error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) async fn resolve(name: &str) -> Result<String, String> {
    let found = resolve_addresses(name.to_owned()).await.map_err(error)?;
    let lines = found.into_iter().map(|ip| match ip {
        IpAddress::Ipv4((a, b, c, d)) => IpAddr::from([a, b, c, d]).to_string(),
        IpAddress::Ipv6((a, b, c, d, e, f, g, h)) => IpAddr::from([a, b, c, d, e, f, g, h]).to_string(),
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
