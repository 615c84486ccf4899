//! `SimpleCIDRAffinityFilter`: the host's address is in the network that two hints describe.

use std::net::IpAddr;

use super::filter::Filter;
use crate::context::{Context, hint_field};
use crate::error::BadRequest;
use crate::hosts::verdict::Verdict;
use crate::values::parse_int;

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "SimpleCIDRAffinityFilter",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile: |context| {
        let near_address = context.single_hint("build_near_host_ip")?;
        let Some(near_address) = near_address.filter(|near_address| !near_address.is_empty())
        else {
            return Ok(Verdict::All);
        };
        let suffix = context.single_hint("cidr")?.unwrap_or("/24");
        let network = Network::parse(near_address, suffix)?;
        let context: Context<'_> = *context;
        Ok(Verdict::Each(Box::new(move |slot| {
            let state = context.hosts.get(slot);
            let address = state.and_then(|state| state.names.ip.as_deref()?.parse().ok());
            address.is_some_and(|address| network.contains(address))
        })))
    },
};

/// A network: an address in it and its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix_length: u32,
}

/// An address as a number, with its width in bits.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

impl Network {
    /// Parses an address with a suffix, such as `/24`.
    fn parse(near_address: &str, suffix: &str) -> Result<Self, BadRequest> {
        let text = format!("{near_address}{suffix}");
        let (address, suffix) = match text.split_once('/') {
            None => (text.as_str(), None),
            Some((address, suffix)) => (address, Some(suffix)),
        };
        let address: IpAddr = address.parse().map_err(|_| {
            let field = hint_field("build_near_host_ip");
            BadRequest::malformed(field, address, "an IP address")
        })?;
        let (_, width) = bits(address);
        let prefix_length = match suffix {
            None => width,
            Some(suffix) => parse_prefix_length(address, suffix).ok_or_else(|| {
                let expected = "\"/\" with a prefix length or a netmask";
                BadRequest::malformed(hint_field("cidr"), suffix, expected)
            })?,
        };
        Ok(Self {
            address,
            prefix_length,
        })
    }

    fn contains(&self, host_address: IpAddr) -> bool {
        let ((address, width), (host_address, host_width)) =
            (bits(self.address), bits(host_address));
        let host_bits = width - self.prefix_length;
        width == host_width && (host_bits >= 128 || (address ^ host_address) >> host_bits == 0)
    }
}

/// Parses a prefix length that is given as a number, a netmask or an inverted netmask; `None` if it is none of these.
fn parse_prefix_length(address: IpAddr, suffix: &str) -> Option<u32> {
    let (_, width) = bits(address);
    if let Some(number) = parse_int(suffix) {
        return u32::try_from(number).ok().filter(|prefix| *prefix <= width);
    }
    let mask: IpAddr = suffix.parse().ok()?;
    let (mask, mask_width) = bits(mask);
    if mask_width != width {
        return None;
    }
    let leading_ones = |value: u128| (value << (128 - width)).leading_ones();
    let all_ones = u128::MAX >> (128 - width);
    // A netmask consists of ones, followed by zeros.
    let is_netmask =
        |value: u128| value == all_ones & !(all_ones.checked_shr(leading_ones(value)).unwrap_or(0));
    if is_netmask(mask) {
        return Some(leading_ones(mask));
    }
    let inverted = !mask & all_ones;
    is_netmask(inverted).then(|| leading_ones(inverted))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn contains(near_address: &str, suffix: &str, other: &str) -> Option<bool> {
        let network = Network::parse(near_address, suffix).ok()?;
        Some(network.contains(other.parse().expect("an address")))
    }

    #[test]
    fn a_network_has_a_prefix_length_or_a_mask() {
        assert_eq!(contains("10.0.0.5", "/24", "10.0.0.200"), Some(true));
        assert_eq!(contains("10.0.0.5", "/24", "10.0.1.5"), Some(false));
        assert_eq!(contains("10.0.0.5", "/+0", "192.168.1.1"), Some(true));
        assert_eq!(contains("10.0.0.5", "", "10.0.0.5"), Some(true));
        assert_eq!(contains("10.0.0.5", "/255.255.0.0", "10.0.9.9"), Some(true));
        assert_eq!(
            contains("10.0.0.5", "/0.0.255.255", "10.1.9.9"),
            Some(false)
        );
        assert_eq!(contains("fe80::1", "/64", "fe80::2:1"), Some(true));
        assert_eq!(contains("fe80::1", "/0", "::"), Some(true));
        assert_eq!(contains("fe80::1", "/64", "10.0.0.5"), Some(false));
        assert_eq!(contains("::1", "/ffff::", "::2"), Some(true));
        for (near_address, suffix) in [
            ("10.0.0", "/24"),
            ("host1", "/24"),
            ("10.0.0.5", "24"),
            ("10.0.0.5", "/33"),
            ("10.0.0.5", "/-1"),
            ("10.0.0.5", "/255.0.255.0"),
            ("10.0.0.5", "/ffff::"),
            ("10.0.0.5/24", "/24"),
            ("10.0.0.5", "/"),
        ] {
            assert_eq!(
                contains(near_address, suffix, "::1"),
                None,
                "{near_address}{suffix}"
            );
        }
    }

    #[test]
    fn prefix_lengths_of_the_longest_and_shortest_masks() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(parse_prefix_length(address, "255.255.255.255"), Some(32));
        assert_eq!(parse_prefix_length(address, "0.0.0.0"), Some(0));
    }
}
