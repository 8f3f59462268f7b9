use crate::world::one_line;
use act_policy::{Host, Target, effective_address};

/// A host has one canonical form, and reading that gives it again.
pub fn host(text: &str) {
    target(text);
    let host = match Host::parse(text) {
        Ok(host) => host,
        Err(error) => return one_line(&error.to_string()),
    };
    let shown = host.to_string();
    assert_eq!(Host::parse(&shown).as_ref(), Ok(&host), "the canonical form of {text:?} is `{shown}`");
    for same in [text.to_ascii_uppercase(), text.to_ascii_lowercase()] {
        assert_eq!(Host::parse(&same).as_ref(), Ok(&host), "{text:?} in another case");
    }
    match host {
        Host::Name(name) => {
            assert!(!name.ends_with('.') && !name.starts_with('.') && !name.bytes().any(|b| b.is_ascii_uppercase()));
            assert!(name.parse::<std::net::IpAddr>().is_err(), "an address that is a name: {name}");
            assert_eq!(Host::parse(&format!("{name}.")), Ok(Host::Name(name)), "with a final dot");
        }
        Host::Address(address) => {
            assert_eq!(address, address.to_canonical());
            let effective = effective_address(address);
            assert_eq!(effective, effective_address(effective));
        }
    }
}

/// The same for the hosts of rules.
fn target(text: &str) {
    let target = match Target::parse(text).or_else(|_| Target::parse_cidr(text)) {
        Ok(target) => target,
        Err(error) => return one_line(&error),
    };
    let shown = target.to_string();
    let again = Target::parse(&shown).or_else(|_| Target::parse_cidr(&shown));
    assert_eq!(again, Ok(target), "the canonical form of {text:?} is `{shown}`");
}
