//! The unit by which the connections of clients are counted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A peer as limits count it: an IPv4 address, or a /64 network of IPv6, because a network of that
/// size is usually assigned to one customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// An IPv4 address, counted as a whole.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address.
    V6([u16; 4]),
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => address.fmt(formatter),
            Self::V6([a, b, c, d]) => {
                write!(
                    formatter,
                    "{}/64",
                    Ipv6Addr::new(*a, *b, *c, *d, 0, 0, 0, 0)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_an_address_or_the_network_of_one_customer() {
        let peer = |text: &str| Peer::from(text.parse::<SocketAddr>().unwrap());
        assert_eq!(peer("127.0.0.1:1"), peer("127.0.0.1:2"));
        assert_eq!(peer("127.0.0.1:1"), peer("[::ffff:127.0.0.1]:2"));
        assert_ne!(peer("127.0.0.1:1"), peer("127.0.0.2:1"));
        assert_eq!(peer("[2001:db8::1]:1"), peer("[2001:db8::ffff:1]:1"));
        assert_ne!(peer("[2001:db8::1]:1"), peer("[2001:db8:0:1::1]:1"));
        assert_eq!(peer("[2001:db8::1]:1").to_string(), "2001:db8::/64");
        assert_eq!(peer("10.0.0.1:1").to_string(), "10.0.0.1");
    }
}
