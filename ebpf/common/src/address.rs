//! Which address an IPv6 address really names.
//!
//! Addresses are four words as they lie in memory, in network order: `word.to_be()` of what a reader would write.

/// An IPv6 address as `sockaddr_in6` holds it.
pub type Words = [u32; 4];

/// `127.0.0.1` as it lies in memory.
pub const LOOPBACK4: u32 = 0x7f00_0001_u32.to_be();

/// `::1` as it lies in memory.
pub const LOOPBACK6: Words = [0, 0, 0, 1_u32.to_be()];

/// The IPv4 address that the kernel will use for `::ffff:a.b.c.d`.
#[inline(always)]
pub const fn mapped(a: &Words) -> Option<u32> {
    if a[0] == 0 && a[1] == 0 && a[2] == 0xffff_u32.to_be() { Some(a[3]) } else { None }
}

/// Where a destination of `0.0.0.0` goes: the kernel sends it to loopback, after the hook.
#[inline(always)]
pub const fn destination4(a: u32) -> u32 {
    if a == 0 { LOOPBACK4 } else { a }
}

/// Where a destination of `::` goes: the kernel sends it to loopback, after the hook.
#[inline(always)]
pub const fn destination6(a: Words) -> Words {
    if a[0] | a[1] | a[2] | a[3] == 0 { LOOPBACK6 } else { a }
}

/// The IPv4 address that a translator or tunnel would take out of the address:
///
/// | form | prefix | where |
/// |---|---|---|
/// | IPv4-compatible (RFC 4291) | `::/96`, without `::` and `::1` | last 32 bits |
/// | NAT64 (RFC 6052) | `64:ff9b::/96` | last 32 bits |
/// | NAT64, local use (RFC 8215) | `64:ff9b:1::/48` | last 32 bits, as for a /96 within |
/// | 6to4 (RFC 3056) | `2002::/16` | bits 16 to 47 |
/// | Teredo (RFC 4380) | `2001::/32` | last 32 bits, inverted: the client |
///
/// A mapped address is not among them: it *is* IPv4, see [`mapped`].
#[inline(always)]
pub const fn embedded(a: &Words) -> Option<u32> {
    let (first, second) = (u32::from_be(a[0]), u32::from_be(a[1]));
    let compatible = a[0] == 0 && a[1] == 0 && a[2] == 0 && u32::from_be(a[3]) > 1;
    let nat64 = first == 0x0064_ff9b && ((second == 0 && a[2] == 0) || second >> 16 == 1);
    if compatible || nat64 {
        Some(a[3])
    } else if first >> 16 == 0x2002 {
        Some((first << 16 | second >> 16).to_be())
    } else if first == 0x2001_0000 {
        Some(!a[3])
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    fn words(text: &str) -> Words {
        let bytes = text.parse::<Ipv6Addr>().unwrap().octets();
        core::array::from_fn(|i| u32::from_ne_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap()))
    }

    fn v4(word: u32) -> Ipv4Addr {
        Ipv4Addr::from(word.to_ne_bytes())
    }

    #[test]
    fn embedded_forms() {
        for (text, expected) in [
            ("::10.1.2.3", Some("10.1.2.3")),
            ("::2", Some("0.0.0.2")),
            ("::1", None),
            ("::", None),
            ("64:ff9b::10.1.2.3", Some("10.1.2.3")),
            ("64:ff9b::1:10.1.2.3", None),
            ("64:ff9b:1::10.1.2.3", Some("10.1.2.3")),
            ("64:ff9b:1:ffff:1:2:10.1.2.3", Some("10.1.2.3")),
            ("64:ff9b:2::10.1.2.3", None),
            ("64:ff9a::10.1.2.3", None),
            ("2002:a01:203::1", Some("10.1.2.3")),
            ("2002:ffff:ffff:1:2:3:4:5", Some("255.255.255.255")),
            ("2003:a01:203::1", None),
            ("2001::f5fe:fdfc", Some("10.1.2.3")),
            ("2001:0:1:2:3:4:f5fe:fdfc", Some("10.1.2.3")),
            ("2001:1::f5fe:fdfc", None),
            ("::ffff:10.1.2.3", None),
            ("fe80::10.1.2.3", None),
        ] {
            assert_eq!(embedded(&words(text)).map(v4), expected.map(|e| e.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn mapped_and_unspecified() {
        assert_eq!(mapped(&words("::ffff:10.1.2.3")).map(v4), Some(Ipv4Addr::new(10, 1, 2, 3)));
        assert_eq!(mapped(&words("::10.1.2.3")), None);
        assert_eq!(mapped(&words("1::ffff:10.1.2.3")), None);
        assert_eq!(v4(destination4(0)), Ipv4Addr::LOCALHOST);
        assert_eq!(destination6(words("::")), words("::1"));
        assert_eq!(destination6(words("::2")), words("::2"));
    }
}
