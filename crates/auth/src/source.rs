//! The source of a request for rate limits: its address or network.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::headers::Headers;

/// The maximum number of addresses of an `X-Forwarded-For` that are evaluated, from its end.
const FORWARDED_ADDRESSES_MAX: usize = 32;

/// The unit of rate limits: an IPv4 address, or the /64 network of an IPv6 address, because a client
/// usually has a whole /64 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source(u128);

impl Source {
    /// The source of an address; all requests without an address have the same source.
    pub(crate) fn of(address: Option<IpAddr>) -> Self {
        let bits = match address.map(|address| address.to_canonical()) {
            None => 0,
            Some(IpAddr::V4(address)) => u128::from(address.to_ipv6_mapped()),
            Some(IpAddr::V6(address)) => u128::from(address) & !u128::from(u64::MAX),
        };
        Self(bits)
    }

    /// The source as bytes.
    pub(crate) fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

/// The address that a request comes from: that of the peer, or if the peer is a trusted proxy, the
/// nearest address in `X-Forwarded-For` that is not a trusted proxy. If there is no such address, or one before it
/// cannot be parsed, it is that of the farthest proxy that was reached. `None` if there is no peer, or if a trusted
/// proxy sends no such header.
pub(crate) fn address(
    peer: Option<IpAddr>,
    proxies: &[IpAddr],
    headers: &(impl Headers + ?Sized),
) -> Option<IpAddr> {
    let is_proxy = |address: &IpAddr| proxies.contains(&address.to_canonical());
    let peer = peer.map(|peer| peer.to_canonical())?;
    if proxies.is_empty() || !is_proxy(&peer) {
        return Some(peer);
    }
    let forwarded = headers.value("x-forwarded-for")?;
    let forwarded = std::str::from_utf8(&forwarded).unwrap_or("");
    let mut nearest = peer;
    for hop in forwarded.rsplit(',').take(FORWARDED_ADDRESSES_MAX) {
        // Beyond an address that cannot be parsed, nothing is trusted.
        let Some(hop) = hop_address(hop.trim()) else {
            return Some(nearest);
        };
        nearest = hop.to_canonical();
        if !is_proxy(&nearest) {
            break;
        }
    }
    Some(nearest)
}

/// Parses an address, possibly with a port or in brackets.
fn hop_address(text: &str) -> Option<IpAddr> {
    let without_port = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    let without_brackets = || {
        let address = text.strip_prefix('[')?.strip_suffix(']')?;
        address.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
    };
    text.parse()
        .ok()
        .or_else(without_port)
        .or_else(without_brackets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_of_64_bits_is_one_source_and_an_address_of_ipv4_too() {
        let source_of = |text| Source::of(Some(ip(text)));
        assert_eq!(source_of("2001:db8::1"), source_of("2001:db8::ffff:1:2:3"));
        assert_ne!(source_of("2001:db8::1"), source_of("2001:db8:0:1::1"));
        assert_ne!(source_of("192.0.2.1"), source_of("192.0.2.2"));
        assert_eq!(source_of("192.0.2.1"), source_of("::ffff:192.0.2.1"));
    }

    #[test]
    fn only_configured_proxies_may_name_the_client() {
        let proxies = [ip("10.0.0.1"), ip("10.0.0.2")];
        let client_address = |peer: &str, forwarded: &str| {
            let headers = [("X-Forwarded-For", forwarded)];
            address(Some(ip(peer)), &proxies, &headers).unwrap()
        };
        assert_eq!(client_address("10.0.0.9", "192.0.2.1"), ip("10.0.0.9"));
        assert_eq!(client_address("10.0.0.1", "192.0.2.1"), ip("192.0.2.1"));
        // Addresses that the client wrote come before those that the proxy appended.
        assert_eq!(
            client_address("10.0.0.1", "192.0.2.7, 192.0.2.1, 10.0.0.2"),
            ip("192.0.2.1")
        );
        assert_eq!(
            client_address("::ffff:10.0.0.1", "192.0.2.1:1234"),
            ip("192.0.2.1")
        );
        assert_eq!(
            client_address("10.0.0.1", "[2001:db8::1]"),
            ip("2001:db8::1")
        );
        assert_eq!(
            client_address("10.0.0.1", "192.0.2.1, unknown"),
            ip("10.0.0.1")
        );
        assert_eq!(client_address("10.0.0.1", ""), ip("10.0.0.1"));
    }
}
