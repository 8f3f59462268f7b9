//! Hosts and addresses in one canonical form, before anything is matched.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest host name in bytes (RFC 1035 §2.3.4, without the final dot).
const MAX_NAME: usize = 253;
/// Longest label in bytes (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;

/// A host in canonical form: lower case, A-labels, no final dot; a literal address as an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Host {
    /// A name.
    Name(String),
    /// A literal address, IPv4-mapped IPv6 turned into IPv4.
    Address(IpAddr),
}

/// Why a text is not a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing there.
    #[error("empty host")]
    Empty,
    /// A character that no host may hold.
    #[error("`{}` in a host", .0.escape_debug())]
    Character(char),
    /// More than one dot at the end, an empty or too long label, or a name that is too long.
    #[error("a malformed label in `{0}`")]
    Label(String),
    /// Not a valid internationalised name.
    #[error("`{0}` is not a valid internationalised name")]
    Idna(String),
    /// Numeric, yet no IPv4 address.
    #[error("`{0}` is neither a name nor an IPv4 address")]
    Numeric(String),
    /// A bracket without its partner, or no IPv6 address in brackets.
    #[error("`{0}` is not an IPv6 address in brackets")]
    Bracket(String),
}

impl Host {
    /// Bring a host into canonical form.
    ///
    /// Accepts names (also internationalised, RFC 5891 by UTS 46), every `inet_aton` spelling of IPv4, and IPv6 with or
    /// without brackets. Refuses control characters, NUL, white space and the URL delimiters `/ # @ % \ ?`.
    ///
    /// ```
    /// use act_policy::Host;
    /// assert_eq!(Host::parse("0x7f.1").unwrap(), Host::parse("127.0.0.1").unwrap());
    /// assert_eq!(Host::parse("EXAMPLE.com.").unwrap(), Host::Name("example.com".into()));
    /// assert!(Host::parse("a..b").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if let Some(name) = plain_name(text) {
            return Ok(Self::Name(name.to_owned()));
        }
        let bad = |c: char| c.is_control() || c.is_whitespace() || "/#@%\\?<>^|`\"'{}".contains(c);
        if let Some(c) = text.chars().find(|c| bad(*c)) {
            return Err(HostError::Character(c));
        }
        if let Some(inner) = text.strip_prefix('[') {
            let address = inner.strip_suffix(']').and_then(|a| a.parse::<Ipv6Addr>().ok());
            return match address {
                Some(a) => Ok(Self::Address(IpAddr::V6(a).to_canonical())),
                None => Err(HostError::Bracket(text.into())),
            };
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Some(c) = text.chars().find(|c| "[]:*".contains(*c)) {
            return Err(HostError::Character(c));
        }
        let name = idna::domain_to_ascii(text).map_err(|_| HostError::Idna(text.into()))?;
        Self::of_ascii(&name, text)
    }

    /// A name in lower case and A-labels, or one of the spellings of IPv4. `text` is how it was written.
    fn of_ascii(name: &str, text: &str) -> Result<Self, HostError> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.is_empty() {
            return Err(HostError::Empty);
        }
        let label_ok = |l: &str| {
            !l.is_empty()
                && l.len() <= MAX_LABEL
                && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        if name.len() > MAX_NAME || !name.split('.').all(label_ok) {
            return Err(HostError::Label(text.into()));
        }
        let last = name.rsplit('.').next().unwrap_or(name);
        if is_number(last) {
            return inet_aton(name)
                .map(|a| Self::Address(IpAddr::V4(a)))
                .ok_or_else(|| HostError::Numeric(text.into()));
        }
        Ok(Self::Name(name.to_owned()))
    }
}

/// The canonical form of a name; `None` for what is none.
pub(crate) fn canonical_name(text: &str) -> Option<Cow<'_, str>> {
    if let Some(name) = plain_name(text) {
        return Some(Cow::Borrowed(name));
    }
    match Host::parse(text) {
        Ok(Host::Name(name)) => Some(Cow::Owned(name)),
        Ok(Host::Address(_)) | Err(_) => None,
    }
}

/// The name, where there is no more to bring into form than a final dot: what most names are, told in one pass. `None`
/// says nothing.
fn plain_name(text: &str) -> Option<&str> {
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.is_empty() || name.len() > MAX_NAME {
        return None;
    }
    // Of the label: its length and its first byte.
    let (mut length, mut first) = (0, 0);
    for byte in name.bytes() {
        match byte {
            b'.' if length == 0 => return None,
            b'.' => length = 0,
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => {
                if length == 0 {
                    first = byte;
                }
                length += 1;
                // `xn--` and its like; a number may be an address.
                if length > MAX_LABEL || length == 4 && byte == b'-' {
                    return None;
                }
            }
            _ => return None,
        }
    }
    (length != 0 && !first.is_ascii_digit()).then_some(name)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || label.bytes().all(|b| b.is_ascii_digit())
}

/// The spellings of `inet_aton(3)`: one to four parts, each decimal, octal (`0…`) or hexadecimal (`0x…`).
fn inet_aton(name: &str) -> Option<Ipv4Addr> {
    let mut parts = Vec::with_capacity(4);
    for part in name.split('.') {
        let value = match part.strip_prefix("0x") {
            Some("") => 0,
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None if part.len() > 1 && part.starts_with('0') => u64::from_str_radix(part, 8).ok()?,
            None => part.parse().ok()?,
        };
        parts.push(value);
    }
    let (last, heads) = parts.split_last()?;
    if heads.len() > 3 || heads.iter().any(|p| *p > 255) || *last >= 1u64 << (8 * (4 - heads.len())) {
        return None;
    }
    let mut address = *last;
    for (i, head) in heads.iter().enumerate() {
        address |= head << (8 * (3 - i));
    }
    u32::try_from(address).ok().map(Ipv4Addr::from)
}

/// The IPv4 address of a literal that is spelled as IPv4-mapped IPv6, with or without brackets.
pub(crate) fn mapped_literal(text: &str) -> Option<Ipv4Addr> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    inner.parse::<Ipv6Addr>().ok()?.to_ipv4_mapped()
}

/// The address that the kernel would act on: IPv4-mapped IPv6 as IPv4, the unspecified address as loopback.
pub fn effective_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(a) if a.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(a) if a.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => other,
    }
}

/// The IPv4 address that an IPv6 address embeds, for every form but the mapped one (see [`effective_address`]):
/// IPv4-compatible (RFC 4291 §2.5.5.1), NAT64 (RFC 6052 and RFC 8215, the /96 layout), 6to4 (RFC 3056) and the client of
/// Teredo (RFC 4380 §4).
pub fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match s {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        | [0x2002, high, low, ..] => Some(v4(high, low)),
        [0x2001, 0, _, _, _, _, high, low] => Some(v4(!high, !low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        #[cfg_attr(miri, ignore = "random inputs are made from regular expressions, for minutes in Miri")]
        fn a_plain_name_is_what_the_long_way_makes_of_it(text in "([axn0-]{0,5}\\.?){0,4}|[a-z0-9._-]{0,8}|(x|xn|axn)--?[a-z0-9]{0,4}(\\.[a-z]{1,2})?\\.{0,2}") {
            if let Some(name) = plain_name(&text) {
                let ascii = idna::domain_to_ascii(&text).map_err(|_| HostError::Idna(text.clone()));
                let long = ascii.and_then(|ascii| Host::of_ascii(&ascii, &text));
                prop_assert_eq!(long, Ok(Host::Name(name.to_owned())));
            }
        }
    }

    #[test]
    fn canonical_hosts() {
        for (text, canonical) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("0x7F000001", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("[0:0:0:0:0:0:0:1]", "::1"),
            ("API.Example.TEST.", "api.example.test"),
            ("faß.de", "xn--fa-hia.de"),
            ("ⓔxample.org", "example.org"),
            ("a。b", "a.b"),
            ("_dmarc.example.org", "_dmarc.example.org"),
        ] {
            assert_eq!(Host::parse(text).map(|h| h.to_string()), Ok(canonical.to_owned()), "{text}");
        }
    }

    #[test]
    fn long_names() {
        let label = "a".repeat(MAX_LABEL);
        let most = format!("{label}.{label}.{label}.{}", "b".repeat(MAX_NAME - 3 * (MAX_LABEL + 1)));
        for (text, valid) in [
            (label.clone(), true),
            (format!("{label}a"), false),
            (format!("a.{label}a.b"), false),
            (most.clone(), true),
            (format!("{most}."), true),
            (format!("{most}b"), false),
        ] {
            let expected = valid.then(|| text.trim_end_matches('.').to_owned());
            assert_eq!(Host::parse(&text).ok(), expected.clone().map(Host::Name), "{text}");
            assert_eq!(canonical_name(&text).map(Cow::into_owned), expected, "{text}");
            assert_eq!(Host::parse(&text.to_uppercase()).ok(), expected.map(Host::Name), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_host() {
        for text in [
            "",
            ".",
            "a..b",
            "a..",
            "a b",
            "a/b",
            "a#b",
            "a@b",
            "a%b",
            "a\0b",
            "a\nb",
            "[::1",
            "::1]",
            "[a]",
            "1.2.3.4.5",
            "256.1.1.1",
            "127.0.0.0x1ff",
            "a:80",
            "*.a",
            "a.1",
            "4294967296",
            "xn--zzzzzz--",
        ] {
            assert!(Host::parse(text).is_err(), "{text:?} gave {:?}", Host::parse(text));
        }
    }

    #[test]
    fn embedded_addresses() {
        for (text, v4) in [
            ("::7f00:1", Some("127.0.0.1")),
            ("64:ff9b::7f00:1", Some("127.0.0.1")),
            ("64:ff9b:1::7f00:1", Some("127.0.0.1")),
            ("2002:7f00:1::", Some("127.0.0.1")),
            ("2001:0:1:2:3:4:80ff:fffe", Some("127.0.0.1")),
            ("::1", None),
            ("::", None),
            ("2001:db8::1", None),
            ("fd00:ec2::254", None),
        ] {
            let got = embedded_ipv4(text.parse().unwrap());
            assert_eq!(got.map(|a| a.to_string()).as_deref(), v4, "{text}");
        }
        assert_eq!(effective_address("::".parse().unwrap()), "::1".parse::<IpAddr>().unwrap());
        assert_eq!(effective_address("::ffff:0.0.0.0".parse().unwrap()), "127.0.0.1".parse::<IpAddr>().unwrap());
    }
}
